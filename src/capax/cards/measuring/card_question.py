"""A question of a card: one learner on one target at one T. Its rate first, then its thresholds.

Every trial is kept with the best validation accuracy it saw, so one trial answers for all three
accuracies, and they are searched for together (`rounds`). The rates race on seeds of their own: all
of them on the first, the better half on the next. The rate is chosen before the first trial that
counts, on other data than these: given the rate, they know nothing of the choice, and the interval
covers m* of the rate that is shown as often as it says.
"""

from dataclasses import replace
from functools import cached_property

from capax.analysis.floor import Floor, Protocol, fewest_examples, floor
from capax.cards.measuring.grid_rounds import GridRounds
from capax.cards.measuring.looks import (
    Looks,
    Rate,
    broken_m,
    chosen_rate,
    coarse_answer,
    evidence,
    from_the_middle,
    look_at,
    open_range,
    tuning_name,
    tuning_stages,
    usable_range,
)
from capax.cards.measuring.rounds import Rounds
from capax.cards.protocol.matched_sizes import sizes
from capax.cards.protocol.plan import Plan
from capax.cards.protocol.targets import target_of
from capax.learners.names import Entry
from capax.sweep.experiments.spec import Panel
from capax.sweep.families.family import Family
from capax.sweep.families.known_families import family_of_entry
from capax.sweep.running.question import Question
from capax.sweep.searching.search import Cell, Progress
from capax.sweep.trial import Outcome, Trial

_EXAMINE_FROM = 0.9  # below the lowest accuracy asked for, by more than the error of 512 rows
_MOST_TROUBLES = 24  # trials with trouble, if they are the most, after which a search gives up
NO_ANSWER = "no answer: the trials failed for reasons other than the number of examples"
_CHEAP = 1.5  # times as many trials for learners that are fitted: most take milliseconds
_SCOUTS = 4  # values of m at which rates are compared, at most


def rates_of(plan: Plan, entry: Entry) -> tuple[Rate, ...]:
    """The rates that are compared; on a grid, None for a learner without a rate."""
    if entry.tuned:
        return plan.rates
    return (None,) if plan.design == "grid" else ()


class CardQuestion(Question):
    """One learner on one target at one T: its rate, then m* at every accuracy.

    scores, tuning: stored trials that count, and stored trials of each rate.
    """

    def __init__(
        self,
        plan: Plan,
        entry: Entry,
        target: str,
        T: int,
        scores: Looks | None = None,
        tuning: dict[Rate, Looks] | None = None,
    ) -> None:
        super().__init__(plan.panel(entry, target), T)
        self.plan, self.entry, self.target = plan, entry, target
        self.scores: Looks = {} if scores is None else scores
        self.tuning: dict[Rate, Looks] = {} if tuning is None else tuning
        self._waiting: list[Trial] = []
        self._tuning_running = 0
        self._running: set[Cell] = set()
        self._span: tuple[int, int] | None = None
        self._rounds: Rounds | GridRounds | None = None
        self._progress: Progress | None = None
        self._rate: Rate = None
        self._begun = self._finished = False

    def begin(self) -> None:
        """Look up the stored trials and choose the first ones to ask for."""
        self._begun = True
        self._waiting = self._tuning_trials()
        if not self._waiting:
            self._after_tuning()

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def name(self) -> str:
        """The panel under which scored trials are kept."""
        return self.panel.name

    @property
    def names(self) -> tuple[str, ...]:
        """Its panel, and one for the trials of every rate."""
        rates = rates_of(self.plan, self.entry)
        return (self.name, *(tuning_name(self.name, rate) for rate in rates))

    @cached_property
    def _family(self) -> Family:
        return family_of_entry(self.entry)

    def at(self, rate: Rate, aim: float = 1.0) -> Panel:
        """The settings of its trials with a rate: sizes are data, the hash of a source is not.

        aim: the accuracy at which a trial of the engine ends; below 1 it is part of its identity.
        """
        model = {k: v for k, v in self.panel.model.items() if k != "source"}
        settings: dict[str, object] = {
            "optimiser": {} if rate is None else {"lr": rate},
            "model": {**model, **sizes(self.entry, self.T)},
        }
        if self.entry.in_lanes:
            settings |= {"examine_from": _EXAMINE_FROM, "in_pieces": True}
            if aim < 1:
                settings["training"] = {**self.panel.training, "success": {"accuracy": aim}}
        return self.panel.model_copy(update=settings)

    def panel_of(self, trial: Trial) -> Panel:
        """The settings of a trial that was taken, with its rate."""
        if self.entry.in_lanes:
            return self.at(trial.spec.optimiser.lr, trial.spec.success.accuracy)
        return self.at(trial.spec.lr if self.entry.tuned else None)

    @property
    def num_done(self) -> int:
        return len(self.scores) + sum(len(looks) for looks in list(self.tuning.values()))

    @property
    def num_solved(self) -> int:
        best = max(self.plan.accuracies)
        return sum(look.accuracy >= best for look in list(self.scores.values()))

    @property
    def num_running(self) -> int:
        return self._tuning_running + len(self._running)

    @property
    def so_far(self) -> str:
        """A first estimate of m*, from the tuning trials, later from the scored trials."""
        if not self.num_done:
            return ""
        scores, tuning = dict(self.scores), list(self.tuning.items())  # another thread adds to them
        looks = {rate: dict(seen) for rate, seen in tuning}
        return coarse_answer(scores, looks, max(self.plan.accuracies))

    @property
    def most_trials(self) -> int:
        """The largest number of trials: for the rates, the first search and later accuracies."""
        if self.is_over:
            return self.num_done
        rates = len(rates_of(self.plan, self.entry)) * self.plan.tuning_trials * _SCOUTS
        return max(self.num_done + 1, rates + self._most)

    @property
    def _most(self) -> int:
        """Trials that count, at most."""
        if self.plan.design == "grid":
            return len(self.plan.grid(4, self.plan.highest(self.entry)).m) * self.plan.grid_trials
        most = self.plan.max_trials + (len(self.plan.accuracies) - 1) * self.plan.more_trials
        return most if self.entry.in_lanes else round(_CHEAP * most)

    def take(self) -> Trial | None:
        """The next trial to start; None while results are awaited."""
        if not self._begun:
            self.begin()
        if self.is_over:
            return None
        if self._progress is None:
            if not self._waiting:
                return None
            self._tuning_running += 1
            return self._waiting.pop(0)
        cell = self._progress.take()
        if cell is None:
            return None
        self._running.add(cell)
        return self._family.trial(self.at(self._rate, self._aim(cell[0])), self.T, *cell)

    def hear(self, outcome: Outcome) -> None:
        """Take in the outcome of a trial that was handed out."""
        trial, look = outcome.trial, look_at(outcome)
        cell = (trial.m, trial.index)
        if trial.panel != self.name:
            rate = next(r for r in self.tuning if tuning_name(self.name, r) == trial.panel)
            self.tuning[rate][cell] = look
            self._tuning_running -= 1
            if not self._waiting and not self._tuning_running:
                self.begin()
            return
        self.scores[cell] = look
        self._running.discard(cell)
        if self.is_over or self._progress is None:
            return
        if self._usable != self._span:
            self._next_search()  # in another range of m; trials under way are taken in as they come
            return
        if self._progress.is_open(cell):
            passed = look.accuracy >= max(self.plan.accuracies)
            self._progress.record(cell, None if look.trouble else passed)
        self._finished = self._progress.finished

    def _tuning_trials(self) -> list[Trial]:
        """The next trials of the rates; none where trials count already: a rate was chosen then."""
        for rate in rates_of(self.plan, self.entry):
            self.tuning.setdefault(rate, {})
        if self.scores:
            return []
        scouts = self.plan.scouts(self.entry, self._fewest)
        asked = (self._scouting(*stage) for stage in tuning_stages(self.plan, self.tuning, scouts))
        return next((trials for trials in asked if trials), [])

    def _scouting(self, rates: tuple[Rate, ...], scouts: tuple[int, ...], seed: int) -> list[Trial]:
        """Tuning trials that are not known: each rate at each scout, the largest m first.

        The middle rate comes first, at every m: a first idea of the answer where a fit takes long.
        """
        made = []
        for rate in from_the_middle(rates):
            panel = self.at(rate, self.plan.tuning_aim)
            for m in sorted(scouts, reverse=True):
                if (m, seed) not in self.tuning[rate]:
                    trial = self._family.trial(panel, self.T, m, seed)
                    made.append(replace(trial, panel=tuning_name(panel.name, rate)))
        return made

    def _after_tuning(self) -> None:
        """The best rate goes on; on a grid nothing does where none came near the lowest accuracy:
        scouts were at the largest m then."""
        if self.tuning:
            self._rate = chosen_rate(self.tuning)
            seen = [look.accuracy for looks in self.tuning.values() for look in looks.values()]
            if self.plan.design == "grid" and max(seen) < min(self.plan.accuracies):
                self._finish_without_search()
                return
        self._next_search()

    def _finish_without_search(self) -> None:
        """No scout came near. That is an answer, unless most scouts failed with an error."""
        self._finished = self._usable is not None
        self.note = "" if self._finished else NO_ANSWER

    def _next_search(self) -> None:
        """The search in the range of m where the learner works, with all that is known."""
        self._span = self._usable
        if self._span is None:
            self.note = NO_ANSWER
            return
        best, known = max(self.plan.accuracies), evidence(self.scores)
        given = {cell: look.accuracy >= best for cell, look in known.items()}
        spent = {*self.scores, *self._running} - set(given)
        self._rounds = self._search(self._span)
        self._progress = Progress(self._rounds, restarts=1, known={}, given=given, spent=spent)
        self._finished = self._progress.finished

    @property
    def _usable(self) -> tuple[int, int] | None:
        """The m between which the learner works; None if most trials failed with an error."""
        troubles = len(self.scores) - len(evidence(self.scores))
        if troubles > _MOST_TROUBLES and 2 * troubles > len(self.scores):
            return None
        seen = {**self.tuning.get(self._rate, {}), **self.scores}
        return usable_range(seen, lowest(self._fewest), self.plan.highest(self.entry))

    def _aim(self, m: int) -> float:
        """The accuracy at which trials of this round end."""
        assert self._rounds is not None
        return self._rounds.aims[m]

    def _search(self, span: tuple[int, int]) -> Rounds | GridRounds:
        scouts = evidence(self.tuning.get(self._rate, {}))
        if self.plan.design == "grid":
            whole = self.plan.grid(*open_range(scouts, self.plan.accuracies, *span))
            broken = broken_m(self.scores)
            works = whole.model_copy(update={"m": tuple(m for m in whole.m if m not in broken)})
            return GridRounds(works, self.plan.accuracies, self.scores, scouts)
        search = self.plan.search(*span).model_copy(update={"max_trials": self._most})
        return Rounds(search, self.plan.accuracies, self.scores, scouts, self.plan.effort)

    @property
    def _fewest(self) -> int:
        return fewest(self.plan, self.target, self.T)


def fewest(plan: Plan, target: str, T: int) -> int:
    """With fewer examples than this, no learner can identify the rule."""
    chosen, rules = target_of(target), card_protocol(plan, max(plan.accuracies))
    return fewest_examples(chosen.function, T, chosen.p, protocol=rules)


def lowest(fewest: int) -> int:
    """The smallest m at which a search looks."""
    return max(4, fewest // 2)


def card_protocol(plan: Plan, accuracy: float) -> Protocol:
    """How a trial of a card is judged at an accuracy: one fit, one guess."""
    return Protocol(
        noise=plan.noise,
        supports=plan.support,
        accuracy=accuracy,
        validation_size=plan.validation_size,
    )


def card_floor(plan: Plan, target: str, T: int, accuracy: float) -> Floor | None:
    """The examples that the best possible learner needs under the protocol of the card; `None`
    where no floor is known."""
    chosen = target_of(target)
    return floor(chosen.function, T, chosen.p, protocol=card_protocol(plan, accuracy))
