"""A job: questions that one learner answers in one call. A sweep is a list of jobs."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capax.errors import InfeasibleError, InputError
from capax.machine import num_cores
from capax.sweep.experiments.spec import Experiment, Panel
from capax.sweep.families.family import Family
from capax.sweep.running.question import PanelQuestion, Question
from capax.sweep.storage.store import Store
from capax.sweep.trial import Learner, Outcome, Supply, Trial

if TYPE_CHECKING:  # it loads JAX
    from capax.training.alarm.live_file import LiveFile

ShouldStop = Callable[[], bool]


class Job:
    """Hands out the trials of its questions, the first question first, and receives outcomes.

    panel, T: the settings of a learner for all these questions. travels: whether another process
    can make the same learner by its name.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        family: Family,
        panel: Panel,
        T: int,
        *,
        travels: bool = True,
    ) -> None:
        self.questions, self.panel, self.T, self.travels = tuple(questions), panel, T, travels
        self.family = family
        self.live: "LiveFile | None" = None  # receives evaluations of its current runs
        self._owner = {(name, q.T): q for q in questions for name in q.names}

    @property
    def finished(self) -> bool:
        """Whether no question needs more trials."""
        return all(question.is_over for question in self.questions)

    def take(self) -> Trial | None:
        """The next trial to start; None while all questions wait for results.

        The question with the fewest trials comes first, so that all questions make progress.
        """
        fewest = sorted(self.questions, key=lambda q: q.num_done + q.num_running)
        waiting = (q.take() for q in fewest if not q.is_over)
        return next((trial for trial in waiting if trial is not None), None)

    def record(self, outcome: Outcome) -> None:
        """Record the outcome of a trial that was taken."""
        self._owner[outcome.trial.panel, outcome.trial.T].record(outcome)

    def panel_of(self, trial: Trial) -> Panel:
        """The settings of a trial that was taken."""
        return self._owner[trial.panel, trial.T].panel_of(trial)

    def prepare(self) -> None:
        """Compile the programs of the job; in a thread, while another job trains."""
        self.family.prepare(self.panel, self.T)

    def supply(self, should_stop: ShouldStop = lambda: False) -> Supply:
        """The trials for a learner."""
        return Supply(self.take, lambda: self.finished, should_stop, self.live)

    def outcomes(
        self, should_stop: ShouldStop = lambda: False, learner: Learner | None = None
    ) -> Iterator[Outcome]:
        """Train until all questions are answered; every outcome as soon as it is known."""
        if self.finished:
            return
        learner = learner or self.family.learner(self.panel, self.T)
        try:
            for outcome in learner(self.supply(should_stop)):
                self.record(outcome)
                yield outcome
        except InfeasibleError as error:
            self.stop(f"stopped: {error}")  # the other jobs continue
            return
        if not self.finished:
            raise InputError(f"model.family: {self.panel.family!r} left trials unfinished")

    def stop(self, note: str) -> None:
        """End the unanswered questions with a note."""
        for question in self.questions:
            if not question.is_over:
                question.note = note


@dataclass(frozen=True)
class Status:
    """The progress of a sweep or a card, for progress bars. jobs: its questions.

    so_far: a line for every open question that has a first estimate.
    """

    trials: int
    most_trials: int
    solved: int
    running: int
    runs: int
    jobs: int
    finished_jobs: int
    at_work: str = ""
    so_far: tuple[str, ...] = ()


_NAMED = 3  # settings in training that a line of progress names


def status_of(questions: Sequence[Question], runs_before: int) -> Status:
    """Counts of open questions; reads numbers only, so other threads may continue meanwhile."""
    return Status(
        trials=sum(q.num_done for q in questions),
        most_trials=sum(q.most_trials for q in questions),
        solved=sum(q.num_solved for q in questions),
        running=sum(q.num_running for q in questions),
        runs=runs_before + sum(q.runs for q in questions),
        jobs=len(questions),
        finished_jobs=sum(q.is_over for q in questions),
        at_work=_at_work(questions),
        so_far=tuple(
            f"{q.panel.name}, T = {q.T}: {q.so_far}"
            for q in questions
            if not q.is_over and q.so_far
        ),
    )


def _at_work(questions: Sequence[Question]) -> str:
    """The settings in training: `T = 300, 600`, by panel if there are several; at most three."""
    panels: dict[str, list[str]] = {}
    for question in questions:
        if question.num_running:
            panels.setdefault(question.panel.name, []).append(str(question.T))
    several = len({question.panel.name for question in questions}) > 1
    parts = [f"{f'{name} ' if several else ''}T = {', '.join(T)}" for name, T in panels.items()]
    others = len(parts) - _NAMED
    return "; ".join([*parts[:_NAMED], f"and {others} more"] if others > 0 else parts)


def jobs_of(experiment: Experiment, store: Store) -> list[Job]:
    """A job for every panel and T of an experiment, each with its outcomes in the store.

    In threads: for large T, finding the least useful m takes seconds.
    """
    places = [(panel, T) for panel in experiment.panels for T in panel.T]
    known = [(store.known(p.name, T), store.known_before(p.name, T)) for p, T in places]
    with ThreadPoolExecutor(min(8, num_cores()), thread_name_prefix="range") as pool:
        made = [pool.submit(PanelQuestion, *at, *of) for at, of in zip(places, known, strict=True)]
    questions = [question.result() for question in made]
    return [Job([q], q.family, q.panel, q.T) for q in questions]
