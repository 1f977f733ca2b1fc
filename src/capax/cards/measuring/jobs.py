"""Questions that are answered together: by one call of the engine, or by one crew of processes."""

from collections.abc import Callable, Iterator
from typing import Any

from capax.cards.measuring.families import card_family
from capax.cards.measuring.question import Question, rates_of
from capax.cards.measuring.scores import stored_looks, tuning_name
from capax.cards.protocol.plan import SLOW, Plan
from capax.cards.protocol.targets import target_of
from capax.errors import InfeasibleError
from capax.learners.names import Entry
from capax.sweep.running.job import Stopped
from capax.sweep.spec import Panel
from capax.sweep.storage.store import Store
from capax.sweep.trial import Learner, Outcome, Trial


class CardJob:
    """Questions about one learner: in the engine those of one T with inputs of one p."""

    def __init__(self, questions: list[Question]) -> None:
        self.questions = questions
        self.entry, self.T = questions[0].entry, questions[0].T
        self._family = card_family(self.entry)
        self.panel = questions[0].at(next(iter(rates_of(questions[0].plan, self.entry)), None))
        self._owner = {(name, q.T): q for q in questions for name in q.panels}
        self.note = ""

    @property
    def finished(self) -> bool:
        return all(q.finished for q in self.questions) or bool(self.note)

    def prepare(self) -> None:
        """Compile; in a thread, while another job trains."""
        self._family.prepare(self.panel, self.T)

    def outcomes(
        self, should_stop: Callable[[], bool] = lambda: False, learner: Learner | None = None
    ) -> Iterator[Outcome]:
        """Train what is missing; every outcome as soon as it is known. learner: not ours."""
        if self.finished:
            return
        learner = learner or self._family.learner(self.panel, self.T)
        try:
            for outcome in learner(self._source(should_stop)):
                self.record(outcome)
                yield outcome
        except InfeasibleError as error:
            self.note = f"stopped: {error}"

    def take(self) -> Trial | None:
        """What the first questions ask first; None while all of them wait."""
        return next((t for q in self.questions if (t := q.take()) is not None), None)

    def record(self, outcome: Outcome) -> None:
        """Take in the outcome of a trial that was taken."""
        self._owner[outcome.trial.panel, outcome.trial.T].record(outcome)

    def panel_of(self, trial: Trial) -> Panel:
        """The panel of a trial that was taken, with its rate."""
        rate = trial.spec.optimiser.lr if self.entry.tuned else None
        return self._owner[trial.panel, trial.T].at(rate)

    def _source(self, should_stop: Callable[[], bool]) -> Iterator[Trial | None]:
        while not self.finished:
            if should_stop():
                raise Stopped
            yield self.take()


def jobs_of(plan: Plan, entries: tuple[Entry, ...], store: Store) -> list[CardJob]:
    """All jobs, each as far as the store remembers it; cheap and telling ones first."""
    groups: dict[tuple[Any, ...], list[Question]] = {}
    for T in plan.T:
        for target in plan.targets:
            for entry in entries:
                if plan.asks(entry, target, T):
                    found = _question(plan, entry, target, T, store)
                    groups.setdefault(_group(plan, found), []).append(found)
    for questions in groups.values():
        questions.sort(key=lambda q: (q.target != plan.targets[0], q.T))
    return [CardJob(groups[key]) for key in sorted(groups)]


def _question(plan: Plan, entry: Entry, target: str, T: int, store: Store) -> Question:
    name = plan.panel(entry, target).name
    rates = rates_of(plan, entry)
    tuning = {rate: stored_looks(store, tuning_name(name, rate), T) for rate in rates}
    return Question(plan, entry, target, T, stored_looks(store, name, T), tuning)


def _group(plan: Plan, asked: Question) -> tuple[Any, ...]:
    """Questions with the same key share a job; jobs come in the order of their keys.

    The first target before the others; what is slow comes last where T is large, most of all what
    takes T steps in a row. Not so on a grid, where the whole set is wanted from a machine that
    trains many at once: there it comes first, or the machine would wait for it alone at the end.
    A learner outside the engine has one job: its processes start once.
    """
    entry, T, others = asked.entry, asked.T, asked.target != plan.targets[0]
    if not entry.in_lanes:
        return False, False, False, 0, entry.name, 0.0
    long, recurrent = entry.name in SLOW and T > 100, entry.name in ("lstm", "gru")
    whole = plan.design == "grid"
    rank = -T if long and whole else T
    return long != whole, others, recurrent, rank, entry.name, target_of(asked.target).p
