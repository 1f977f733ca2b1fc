"""What a card asks: one learner on one target at one T. Its rate first, then its thresholds.

Every trial is kept with the best validation accuracy it saw, so one trial answers for all three
accuracies: the search for 100 % comes first, and what it did is there when 99 % and 95 % are asked.
"""

from dataclasses import dataclass, field, replace

from capax.analysis.floor import Floor, Protocol, fewest_examples, floor
from capax.cards.measuring.families import card_family
from capax.cards.measuring.scores import Looks, Rate, chosen_rate, look_at, open_range, tuning_name
from capax.cards.protocol.plan import TUNING_SEEDS, Plan
from capax.cards.protocol.targets import target_of
from capax.learners.names import Entry
from capax.sweep.search import Progress
from capax.sweep.spec import Panel
from capax.sweep.trial import Outcome, Trial

_CHEAP = 3  # times as many trials for learners whose fits take milliseconds


def rates_of(plan: Plan, entry: Entry) -> tuple[Rate, ...]:
    """The rates that are compared; a learner without one may still send scouts."""
    if entry.tuned:
        return plan.rates
    return (None,) if plan.design == "grid" else ()


@dataclass
class Question:
    """One learner on one target at one T: its rate, then m* at every accuracy. Asks for trials."""

    plan: Plan
    entry: Entry
    target: str
    T: int
    scores: Looks
    tuning: dict[Rate, Looks] = field(default_factory=dict)
    finished: bool = False
    _waiting: list[Trial] = field(default_factory=list)
    _open: int = 0
    _progress: Progress | None = None
    _rate: Rate = None
    _left: list[float] = field(default_factory=list)
    _begun: bool = False

    def begin(self) -> None:
        """Look up what is known and what to ask first."""
        self._begun = True
        self._left = list(self.plan.accuracies)
        self._waiting = self._tuning_trials()
        if not self._waiting:
            self._after_tuning()

    @property
    def name(self) -> str:
        """The panel under which scored trials are kept."""
        return self.plan.panel(self.entry, self.target).name

    @property
    def panels(self) -> list[str]:
        """All panels of its trials."""
        rates = rates_of(self.plan, self.entry)
        return [self.name, *(tuning_name(self.name, rate) for rate in rates)]

    def at(self, rate: Rate) -> Panel:
        """The panel with its rate; the hash of a user's source is the store's business."""
        panel = self.plan.panel(self.entry, self.target)
        model = {k: v for k, v in panel.model.items() if k != "source"}
        optimiser = {} if rate is None else {"lr": rate}
        return panel.model_copy(update={"optimiser": optimiser, "model": model})

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
        trial, look = outcome.trial, look_at(outcome)
        cell = (trial.m, trial.index)
        if self._progress is None:
            rate = next(r for r in self.tuning if tuning_name(self.name, r) == trial.panel)
            self.tuning[rate][cell] = look
            self._open -= 1
            if not self._waiting and not self._open:
                self._after_tuning()
            return
        self.scores[cell] = look
        self._progress.record(cell, look.accuracy >= self._left[0])
        if self._progress.finished:
            self._left.pop(0)
            self._next_search()

    def _tuning_trials(self) -> list[Trial]:
        """Every rate on the same tuning seeds, where rates differ and at the largest m."""
        waiting = []
        for m in self.plan.scouts(self.entry, self._fewest):
            for rate in rates_of(self.plan, self.entry):
                panel, known = self.at(rate), self.tuning.setdefault(rate, {})
                for i in range(self.plan.tuning_trials):
                    if (m, TUNING_SEEDS + i) not in known:
                        made = card_family(self.entry).trial(panel, self.T, m, TUNING_SEEDS + i)
                        waiting.append(replace(made, panel=tuning_name(panel.name, rate)))
        return waiting

    def _after_tuning(self) -> None:
        """The best rate goes on; on a grid nothing does where none came near the lowest accuracy:
        scouts were at the largest m."""
        if self.tuning:
            self._rate = chosen_rate(self.tuning)
            seen = [look.accuracy for looks in self.tuning.values() for look in looks.values()]
            if self.plan.design == "grid" and max(seen) < min(self.plan.accuracies):
                self.finished = True
                return
        self._next_search()

    def _next_search(self) -> None:
        """The search at the next accuracy, with all that is known; the end if none is left."""
        while self._left:
            accuracy = self._left[0]
            given = {cell: look.accuracy >= accuracy for cell, look in self.scores.items()}
            search = self._grid() if self.plan.design == "grid" else self._adaptive(len(given))
            self._progress = Progress(search, restarts=1, known={}, given=given)
            if not self._progress.finished:
                return
            self._left.pop(0)
        self.finished = True

    def _adaptive(self, known: int):
        search = self.plan.search(self._lowest, self.entry)
        most = (1 if self.entry.in_lanes else _CHEAP) * self.plan.max_trials
        if self._left[0] != self.plan.accuracies[0]:
            most = max(most, known + self.plan.more_trials)
        return search.model_copy(update={"max_trials": most})

    def _grid(self):
        """The same grid for every accuracy: asked for once."""
        high = self.plan.highest(self.entry)
        scouts = self.tuning[self._rate]
        return self.plan.grid(*open_range(scouts, self.plan.accuracies, self._lowest, high))

    @property
    def _fewest(self) -> int:
        """Fewer examples than this identify the rule for no learner."""
        chosen = target_of(self.target)
        rules = card_protocol(self.plan, max(self.plan.accuracies))
        return fewest_examples(chosen.function, self.T, chosen.p, protocol=rules)

    @property
    def _lowest(self) -> int:
        return max(4, self._fewest // 2)


def card_protocol(plan: Plan, accuracy: float) -> Protocol:
    """How a trial of a card is judged at an accuracy: one fit, one guess."""
    return Protocol(
        noise=plan.noise,
        supports=plan.support,
        accuracy=accuracy,
        validation_size=plan.validation_size,
    )


def card_floor(plan: Plan, target: str, T: int, accuracy: float) -> Floor | None:
    """What the best possible learner needs under the protocol of the card; `None` where no floor
    is known."""
    chosen = target_of(target)
    return floor(chosen.function, T, chosen.p, protocol=card_protocol(plan, accuracy))
