"""The rounds of a grid: half of the trials from the largest m down, then the rest where it tells.

Trials that fail take all their steps, and at large m they take most of the time. So half of the
trials come first, from the largest m down, and each round follows from the one before. An accuracy
is in question below an m if one of these trials reached it there, or a scout of this rate at a
smaller m (success may fall with m). Below an m no trial aims higher than the highest accuracy in
question; without one the descent ends. While all trials reach 100 %, a round takes several m.

The rest of the trials at an accuracy is for every m from the first one at which a trial passed up
to the one from which on all passed; up to the largest m if those that passed there are too few to
show a plateau. Each ends at the highest accuracy that has its m. An accuracy at which no trial
passed has no rest: of four trials at the largest m all fail with probability 0.2^4 if m* lies below
it. If the half is smaller than that, it gets the rest there.

What the rounds ask for depends on the outcomes of earlier rounds alone, also after an interruption.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from capax.cards.measuring.looks import Looks, evidence
from capax.cards.protocol.card_search import PROBES
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.search import GridSearch

PLATEAU = 17  # trials in a row that pass: with a chance of 80 % each, less than 2.5 % do
_AT_ONCE = 3  # m of a round while all trials reach the highest accuracy


@dataclass
class GridRounds:
    """The trials of a grid for all accuracies, as `Progress` drives it.

    scores: the trials that count; the question adds to them. scouts: tuning trials of the rate.
    aims: the accuracy at which the trials of the last round end, by their m.
    """

    grid: GridSearch
    accuracies: tuple[float, ...]
    scores: Looks
    scouts: Looks = field(default_factory=dict)
    aims: dict[int, float] = field(default_factory=dict, init=False)

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The missing trials of the first round that has some, the largest m first."""
        if not self.grid.m:
            return ()
        first: dict[int, list[float]] = {}
        for part in self._descent(first):
            begin = self.grid.model_copy(update={"m": part, "trials": self._half})
            if batch := begin.next_round(counts, restarts):
                return batch
            first |= {m: self._first(m) for m in part}
        self.aims = aims_by_m(first, self.accuracies)
        return self.grid.model_copy(update={"m": tuple(self.aims)}).next_round(counts, restarts)

    def _descent(self, first: dict[int, list[float]]) -> Iterator[tuple[int, ...]]:
        """The m of each round of the first half, whose results are then in `first`."""
        left = sorted(set(self.grid.m), reverse=True)
        aim, at_once = max(self.accuracies), 1
        while left:
            part, left = tuple(left[:at_once]), left[at_once:]
            self.aims = dict.fromkeys(part, aim)
            yield part
            low = part[-1]
            below = [look.accuracy for (m, _), look in evidence(self.scouts).items() if m < low]
            reached = max([*first[low], *below])
            if reached < min(self.accuracies):
                return
            aim = max(a for a in self.accuracies if reached >= a)
            at_once = _AT_ONCE if min(first[low]) >= max(self.accuracies) else 1

    @property
    def _half(self) -> int:
        """Trials of the first half at every m."""
        return -(-self.grid.trials // 2)

    def _first(self, m: int) -> list[float]:
        """The accuracies of the first half of the trials at m."""
        looks = [look for (k, _), look in sorted(evidence(self.scores).items()) if k == m]
        return [look.accuracy for look in looks[: self._half]]


def aims_by_m(first: dict[int, list[float]], accuracies: tuple[float, ...]) -> dict[int, float]:
    """The accuracy at which further trials end, for every m that needs some.

    first: the accuracies of the first trials at each m.
    """
    aims: dict[int, float] = {}
    top = max(first)
    for accuracy in sorted(accuracies):
        reached = [m for m in first if max(first[m]) >= accuracy]
        if reached:
            begin, end = min(reached), _level(first, accuracy)
            aims |= {m: accuracy for m in first if begin <= m <= end}
        elif len(first[top]) < PROBES:
            aims[top] = accuracy
    return aims


def _level(first: dict[int, list[float]], accuracy: float) -> int:
    """The m from which on all first trials passed, if they are enough for a plateau; or the
    largest m."""
    passed, level = 0, max(first)
    for m in sorted(first, reverse=True):
        if min(first[m]) < accuracy:
            break
        passed, level = passed + len(first[m]), m
    return level if passed >= PLATEAU else max(first)
