"""What a card asks: one learner on one target at one T. Its rate first, then its thresholds.

Every trial is kept with the best validation accuracy it saw, so one trial answers for all three
accuracies: the search for 100 % comes first, and what it did is there when 99 % and 95 % are asked.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from capax.analysis.floor import Floor, Protocol, floor
from capax.cards.families import card_family
from capax.cards.plan import SLOW, TUNING_SEEDS, Plan
from capax.cards.targets import target_of
from capax.errors import InfeasibleError
from capax.learners.names import Entry
from capax.sweep.job import Stopped
from capax.sweep.search import Cell, Progress
from capax.sweep.spec import Panel
from capax.sweep.store import Store
from capax.sweep.trial import Outcome, Trial

Scores = dict[Cell, float]
_SIMULATED = 4  # bits of a target up to which the best learner is simulated
_CHEAP = 3  # times as many trials for learners whose fits take milliseconds


def best_accuracy(outcome: Outcome) -> float:
    """The best accuracy on the validation set that any look at any run found."""
    shares = (a for run in outcome.runs for a in run.curves.get("validation_accuracy", []))
    return max(shares, default=0.0)


def stored_scores(store: Store, panel: str, T: int) -> Scores:
    """The scores of all finished trials of a panel at T."""
    rows = store.select(
        "SELECT t.m, t.number, t.solved, r.curves FROM trials t LEFT JOIN runs r USING (trial_id) "
        "WHERE t.panel = ? AND t.T = ?",
        panel,
        T,
    )
    scores: Scores = {}
    for row in rows:
        curves = json.loads(row["curves"]) if row["curves"] else {}
        seen = max(curves.get("validation_accuracy", []), default=float(row["solved"]))
        cell = (row["m"], row["number"])
        scores[cell] = max(scores.get(cell, 0.0), seen)
    return scores


@dataclass
class Question:
    """One learner on one target at one T: its rate, then m* at every accuracy. Asks for trials."""

    plan: Plan
    entry: Entry
    target: str
    T: int
    scores: Scores
    tuning: dict[float, Scores] = field(default_factory=dict)
    finished: bool = False
    _waiting: list[Trial] = field(default_factory=list)
    _open: int = 0
    _progress: Progress | None = None
    _rate: float = 0.0
    _left: list[float] = field(default_factory=list)

    _begun: bool = False

    def begin(self) -> None:
        """Look up what is known and what to ask first; the floor may take a while to find."""
        self._begun = True
        self._left = list(self.plan.accuracies)
        self._rate = self.plan.rates[0]
        if self.entry.tuned:
            self._waiting = self._tuning_trials()
        if not self._waiting:
            self._after_tuning()

    @property
    def name(self) -> str:
        """The panel under which scored trials are kept."""
        return self.plan.panel(self.entry, self.target).name

    def at(self, rate: float) -> Panel:
        """The panel with its rate; the hash of a user's source is the store's business."""
        panel = self.plan.panel(self.entry, self.target)
        model = {k: v for k, v in panel.model.items() if k != "source"}
        rates = {"lr": rate} if self.entry.tuned else {}
        return panel.model_copy(update={"optimiser": rates, "model": model})

    def take(self) -> Trial | None:
        """The next trial to start; None while results are awaited."""
        if not self._begun:
            self.begin()
        if self.finished:
            return None
        if self._progress is None:
            if not self._waiting:
                return None
            self._open += 1
            return self._waiting.pop(0)
        cell = self._progress.take()
        family = card_family(self.entry)
        return None if cell is None else family.trial(self.at(self._rate), self.T, *cell)

    def record(self, outcome: Outcome) -> None:
        """Take in the outcome of a trial that was handed out."""
        trial, score = outcome.trial, best_accuracy(outcome)
        cell = (trial.m, trial.index)
        if self._progress is None:
            rate = next(r for r in self.plan.rates if tuning_name(self.name, r) == trial.panel)
            self.tuning[rate][cell] = score
            self._open -= 1
            if not self._waiting and not self._open:
                self._after_tuning()
            return
        self.scores[cell] = score
        self._progress.record(cell, score >= self._left[0])
        if self._progress.finished:
            self._left.pop(0)
            self._next_search()

    def _tuning_trials(self) -> list[Trial]:
        """Every rate on the same tuning seeds, at some times the floor and at the largest m."""
        low = card_floor(self.plan, self.target, self.T).m
        waiting = []
        for m in sorted({min(4 * low, self.plan.m_high), self.plan.m_high}):
            for rate in self.plan.rates:
                panel, known = self.at(rate), self.tuning.setdefault(rate, {})
                for i in range(self.plan.tuning_trials):
                    if (m, TUNING_SEEDS + i) not in known:
                        made = card_family(self.entry).trial(panel, self.T, m, TUNING_SEEDS + i)
                        waiting.append(replace(made, panel=tuning_name(panel.name, rate)))
        return waiting

    def _after_tuning(self) -> None:
        """The best rate goes on; where none came near the lowest accuracy, nothing does."""
        if self.entry.tuned:
            self._rate = chosen_rate(self.tuning)
            seen = [s for scores in self.tuning.values() for s in scores.values()]
            if max(seen) < min(self.plan.accuracies):
                self.finished = True
                return
        self._next_search()

    def _next_search(self) -> None:
        """The search at the next accuracy, with all that is known; the end if none is left."""
        while self._left:
            accuracy = self._left[0]
            given = {cell: score >= accuracy for cell, score in self.scores.items()}
            search = self.plan.search(max(4, card_floor(self.plan, self.target, self.T).m // 2))
            often = 1 if self.entry.in_lanes else _CHEAP
            most = often * self.plan.max_trials
            if accuracy != self.plan.accuracies[0]:
                most = max(most, len(given)) + self.plan.more_trials
            search = search.model_copy(update={"max_trials": most})
            self._progress = Progress(search, restarts=1, known={}, given=given)
            if not self._progress.finished:
                return
            self._left.pop(0)
        self.finished = True


class CardJob:
    """Questions that one call of the engine answers: one learner, one T, inputs of one p."""

    def __init__(self, questions: list[Question]) -> None:
        self.questions = questions
        self.entry, self.T = questions[0].entry, questions[0].T
        self._family = card_family(self.entry)
        self._panel = questions[0].at(questions[0].plan.rates[0])
        self._owner = {name: q for q in questions for name in _panels(q)}
        self.note = ""

    @property
    def finished(self) -> bool:
        return all(q.finished for q in self.questions) or bool(self.note)

    def prepare(self) -> None:
        """Compile; in a thread, while another job trains."""
        self._family.prepare(self._panel, self.T)

    def outcomes(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[Outcome]:
        """Train what is missing; every outcome as soon as it is known."""
        for question in self.questions:
            question.begin()
        if self.finished:
            return
        try:
            for outcome in self._family.learner(self._panel, self.T)(self._source(should_stop)):
                self._owner[outcome.trial.panel].record(outcome)
                yield outcome
        except InfeasibleError as error:
            self.note = f"stopped: {error}"

    def _source(self, should_stop: Callable[[], bool]) -> Iterator[Trial | None]:
        while not self.finished:
            if should_stop():
                raise Stopped
            taken = [trial for q in self.questions if (trial := q.take()) is not None]
            yield from taken or [None]


def _panels(question: Question) -> list[str]:
    rates = question.plan.rates if question.entry.tuned else ()
    return [question.name, *(tuning_name(question.name, rate) for rate in rates)]


def tuning_name(panel: str, rate: float) -> str:
    """The panel under which tuning trials are kept, apart from those that count."""
    return f"{panel}, tuning lr = {rate:g}"


def chosen_rate(tuning: dict[float, Scores]) -> float:
    """The rate with the best mean accuracy on the tuning seeds; the smaller one of equals."""
    means = {rate: sum(s.values()) / max(1, len(s)) for rate, s in sorted(tuning.items())}
    return max(means, key=lambda rate: round(means[rate], 4))


def card_floor(plan: Plan, target: str, T: int) -> Floor:
    """What the best possible learner needs under the protocol of the card."""
    chosen = target_of(target)
    longest = max(plan.T) if chosen.s <= _SIMULATED else 10**6  # beyond: Fano's, at every T
    protocol = Protocol(noise=plan.noise, largest_T=longest)
    return floor(chosen.function, T, chosen.p, protocol=protocol)


def jobs_of(plan: Plan, entries: tuple[Entry, ...], store: Store) -> list[CardJob]:
    """All jobs, each as far as the store remembers it; cheap and telling ones first."""
    groups: dict[tuple[Any, ...], list[Question]] = {}
    for target in plan.targets:
        for T in plan.T:
            for entry in entries:
                if plan.asks(entry, target, T):
                    key = (*_order(plan, entry, target, T), entry.name, target_of(target).p)
                    groups.setdefault(key, []).append(_question(plan, entry, target, T, store))
    return [CardJob(groups[key]) for key in sorted(groups)]


def _question(plan: Plan, entry: Entry, target: str, T: int, store: Store) -> Question:
    name = plan.panel(entry, target).name
    tuning: dict[float, Scores] = {}
    if entry.tuned:
        tuning = {r: stored_scores(store, tuning_name(name, r), T) for r in plan.rates}
    return Question(plan, entry, target, T, stored_scores(store, name, T), tuning)


def _order(plan: Plan, entry: Entry, target: str, T: int) -> tuple[int, int, int]:
    """The first target before the others; what is slow comes last, most of all where T is large."""
    recurrent, others = entry.name in ("lstm", "gru"), target != plan.targets[0]
    late = 2 if entry.name in SLOW and T > 100 else 3 if recurrent and others else int(recurrent)
    return late, int(others), T
