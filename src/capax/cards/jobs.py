"""A job of a card: one learner on one target at one T. Its rate first, then its thresholds.

Every trial is kept with the best validation accuracy it saw, so one trial answers for all three
accuracies: the search for 100 % comes first, and what it did is there when 99 % and 95 % are asked.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from capax.analysis.floor import Floor, Protocol, floor
from capax.cards.families import card_family
from capax.cards.plan import TUNING_SEEDS, Plan
from capax.cards.targets import target_of
from capax.errors import InfeasibleError
from capax.learners.names import Entry
from capax.sweep.families import Family
from capax.sweep.job import Stopped
from capax.sweep.search import Cell, Progress
from capax.sweep.spec import Panel
from capax.sweep.store import Store
from capax.sweep.trial import Outcome, Trial

Scores = dict[Cell, float]
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
class CardJob:
    """What is known, and what is still to be trained."""

    plan: Plan
    entry: Entry
    target: str
    T: int
    scores: Scores
    tuning: dict[float, Scores] = field(default_factory=dict)
    finished: bool = False
    note: str = ""

    @property
    def panel(self) -> Panel:
        return self.plan.panel(self.entry, self.target)

    @property
    def family(self) -> Family:
        return card_family(self.entry)

    def prepare(self) -> None:
        """Compile; in a thread, while another job trains."""
        self.family.prepare(self._at(self.plan.rates[0]), self.T)

    def outcomes(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[Outcome]:
        """Train what is missing."""
        try:
            rate = self.plan.rates[0]
            if self.entry.tuned:
                yield from self._tuned(should_stop)
                rate = chosen_rate(self.tuning)
                if self._hopeless():
                    self.note = "no rate reached the lowest accuracy on any tuning seed"
                    self.finished = True
                    return
            for accuracy in self.plan.accuracies:
                yield from self._searched(rate, accuracy, should_stop)
        except InfeasibleError as error:
            self.note = f"stopped: {error}"
        self.finished = True

    def _at(self, rate: float) -> Panel:
        """The panel with its rate; the hash of a user's source is the store's business."""
        panel = self.panel
        model = {k: v for k, v in panel.model.items() if k != "source"}
        rates = {"lr": rate} if self.entry.tuned else {}
        return panel.model_copy(update={"optimiser": rates, "model": model})

    def tuning_sizes(self) -> tuple[int, ...]:
        """The m at which rates are compared: some times the floor, and the largest."""
        low = card_floor(self.plan, self.target, self.T).m
        return tuple(sorted({min(4 * low, self.plan.m_high), self.plan.m_high}))

    def _tuned(self, should_stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Every rate on the same tuning seeds, all at once: rates are inputs of one program."""
        waiting: list[Trial] = []
        for rate in self.plan.rates:
            panel, known = self._at(rate), self.tuning.setdefault(rate, {})
            for m in self.tuning_sizes():
                for i in range(self.plan.tuning_trials):
                    if (m, TUNING_SEEDS + i) not in known:
                        trial = self.family.trial(panel, self.T, m, TUNING_SEEDS + i)
                        waiting.append(replace(trial, panel=tuning_name(panel.name, rate)))
        if not waiting:
            return
        for outcome in self.family.learner(self._at(self.plan.rates[0]), self.T)(iter(waiting)):
            if should_stop():
                raise Stopped
            name, trial = outcome.trial.panel, outcome.trial
            rate = next(r for r in self.plan.rates if tuning_name(self.panel.name, r) == name)
            self.tuning[rate][trial.m, trial.index] = best_accuracy(outcome)
            yield outcome

    def _hopeless(self) -> bool:
        lowest = min(self.plan.accuracies)
        return all(s < lowest for scores in self.tuning.values() for s in scores.values())

    def _searched(
        self, rate: float, accuracy: float, should_stop: Callable[[], bool]
    ) -> Iterator[Outcome]:
        given = {cell: score >= accuracy for cell, score in self.scores.items()}
        first = accuracy == self.plan.accuracies[0]
        search = self.plan.search(max(4, card_floor(self.plan, self.target, self.T).m // 2))
        often = 1 if self.entry.in_lanes else _CHEAP
        most = often * self.plan.max_trials if first else len(given) + self.plan.more_trials
        search = search.model_copy(update={"max_trials": max(1, most)})
        progress = Progress(search, restarts=1, known={}, given=given)
        panel = self._at(rate)
        if progress.finished:
            return

        def source() -> Iterator[Trial | None]:
            while not progress.finished:
                if should_stop():
                    raise Stopped
                cell = progress.take()
                yield None if cell is None else self.family.trial(panel, self.T, *cell)

        for outcome in self.family.learner(panel, self.T)(source()):
            cell = (outcome.trial.m, outcome.trial.index)
            self.scores[cell] = best_accuracy(outcome)
            progress.record(cell, self.scores[cell] >= accuracy)
            yield outcome


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
    protocol = Protocol(noise=plan.noise, largest_T=max(plan.T))
    return floor(chosen.function, T, chosen.p, protocol=protocol)


def jobs_of(plan: Plan, entries: tuple[Entry, ...], store: Store) -> list[CardJob]:
    """All jobs, each as far as the store remembers it; cheap and telling ones first."""
    jobs = []
    for target in plan.targets:
        for T in plan.T:
            for entry in entries:
                name = plan.panel(entry, target).name
                tuning: dict[float, Scores] = {}
                if entry.tuned:
                    tuning = {
                        rate: stored_scores(store, tuning_name(name, rate), T)
                        for rate in plan.rates
                    }
                scores = stored_scores(store, name, T)
                jobs.append(CardJob(plan, entry, target, T, scores, tuning))
    return sorted(jobs, key=lambda job: _order(plan, job))


def _order(plan: Plan, job: CardJob) -> tuple[Any, ...]:
    """What takes T steps in a row comes last where T is large."""
    slow = job.entry.name in ("lstm", "gru") and job.T > 100
    return slow, plan.targets.index(job.target), plan.T.index(job.T)
