"""A job: the search of one panel at one T. A sweep is a list of jobs."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from capax.errors import InfeasibleError, InputError
from capax.machine import num_cores
from capax.sweep.families import family_of, m_range
from capax.sweep.search import AdaptiveSearch, Cell, Progress, Search
from capax.sweep.spec import Experiment, Panel
from capax.sweep.storage.store import Store
from capax.sweep.trial import Learner, Outcome, Trial


class Stopped(Exception):
    """Raised into a learner that asks for work after the sweep was told to stop."""


class Job:
    """One panel at one T: knows which trials are still wanted, and takes in outcomes.

    `note` says what a reader of the results must know: there is no m in range, or work had to stop.
    """

    def __init__(
        self, panel: Panel, T: int, known: dict[Cell, bool], before: set[Cell] | None = None
    ) -> None:
        self.panel = panel
        self.T = T
        self._family = family_of(panel)
        search, self.note = in_range(panel, T)
        given = {cell: known[cell] for cell in before or ()}
        new = {cell: solved for cell, solved in known.items() if cell not in given}
        self.closed = False
        self.runs = self.recorded = self.written = 0  # runs and trials that came in; trials stored
        self.progress = Progress(search, restarts=panel.restarts, known=new, given=given)

    @property
    def finished(self) -> bool:
        return self.progress.finished

    def take(self) -> Trial | None:
        """The next trial to start, or `None` while results are awaited."""
        cell = self.progress.take()
        return None if cell is None else self._family.trial(self.panel, self.T, *cell)

    @property
    def is_written(self) -> bool:
        """Whether the job is over and the store has all of it."""
        return bool(self.finished or self.note) and self.written == self.recorded

    def record(self, outcome: Outcome) -> None:
        trial = outcome.trial
        self.recorded += 1
        self.runs += len(outcome.runs)
        self.progress.record((trial.m, trial.index), outcome.solved)

    def prepare(self) -> None:
        """Compile what the job needs; in a thread, while another job trains."""
        self._family.prepare(self.panel, self.T)

    def learner(self) -> Learner:
        return self._family.learner(self.panel, self.T)

    def outcomes(
        self, should_stop: Callable[[], bool] = lambda: False, learner: Learner | None = None
    ) -> Iterator[Outcome]:
        """Train until the search is finished; every outcome as soon as it is known."""
        try:
            for outcome in (learner or self.learner())(self._source(should_stop)):
                self.record(outcome)
                yield outcome
        except InfeasibleError as error:
            self.note = f"stopped: {error}"  # the other T can still be done
            return
        if not self.finished:
            raise InputError(f"model.family: {self.panel.family!r} left trials unfinished")

    def _source(self, should_stop: Callable[[], bool]) -> Iterator[Trial | None]:
        while not self.finished:
            if should_stop():
                raise Stopped
            yield self.take()


@dataclass(frozen=True)
class Status:
    """Where a sweep stands, for progress bars."""

    trials: int
    most_trials: int
    solved: int
    running: int
    runs: int
    jobs: int
    finished_jobs: int
    at_work: str = ""


class Tally:
    """Counts of a sweep under way; reads numbers only, so other threads may go on meanwhile."""

    def __init__(self, jobs: list[Job], runs: int) -> None:
        self._jobs = jobs
        self._runs_before = runs

    def status(self) -> Status:
        progress = [job.progress for job in self._jobs]
        most = [
            job.progress.num_done
            if job.finished or job.note
            else job.panel.search.at_length(job.T).most_trials
            for job in self._jobs
        ]
        return Status(
            trials=sum(p.num_done for p in progress),
            most_trials=sum(most),
            solved=sum(p.num_solved for p in progress),
            running=sum(p.num_running for p in progress),
            runs=self._runs_before + sum(job.runs for job in self._jobs),
            jobs=len(self._jobs),
            finished_jobs=sum(bool(job.finished or job.note) for job in self._jobs),
            at_work=self._at_work(),
        )

    def _at_work(self) -> str:
        """What is being trained: `T = 300, 600`, by panel where there are several."""
        panels: dict[str, list[str]] = {}
        for job in self._jobs:
            if job.progress.num_running:
                panels.setdefault(job.panel.name, []).append(str(job.T))
        several = len({job.panel.name for job in self._jobs}) > 1
        parts = (f"{f'{name} ' if several else ''}T = {', '.join(T)}" for name, T in panels.items())
        return "; ".join(parts)


def jobs_of(experiment: Experiment, store: Store) -> list[Job]:
    """All jobs of an experiment, each as far as the store remembers it.

    Side by side: where T is large, seconds pass until it is known from which m on to look.
    """
    places = [(panel, T) for panel in experiment.panels for T in panel.T]
    known = [(store.known(p.name, T), store.known_before(p.name, T)) for p, T in places]
    with ThreadPoolExecutor(min(8, num_cores()), thread_name_prefix="range") as pool:
        made = [pool.submit(Job, *at, *of) for at, of in zip(places, known, strict=True)]
    return [job.result() for job in made]


def in_range(panel: Panel, T: int) -> tuple[Search | None, str]:
    """The panel's search within the m that make sense at T; no search, and why, if none does.

    A list of m is taken as it is: who names an m wants to hear what happens there.
    """
    least, most = m_range(panel, T)
    search = panel.search.at_length(T)
    if not isinstance(search, AdaptiveSearch):
        return search, ""
    low, high = max(search.m_low, least), min(search.m_high, most or search.m_high)
    if low >= high:
        reason = (
            f"out of range: of training sets with m <= {search.m_high} hardly any leaves one rule"
            if least > search.m_low
            else f"out of range: there are {most} examples"
        )
        return None, f"{reason}, and m = {least} is the least that makes sense"
    return search.model_copy(update={"m_low": low, "m_high": high}), ""
