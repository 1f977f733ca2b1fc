"""The rounds of a grid: half of the trials from the largest m down, then the rest where it tells.

Trials at large m take most of the time, and those far below the thresholds all fail. So the upper
half of the grid comes first, with half of its trials; the lower half follows where a trial passed
at the smallest of these m. The rest of the trials is for every m from the first one at which a
trial passed at some accuracy: each ends at the highest accuracy of which this is true, as in
`capax.cards.measuring.rounds`. At an accuracy at which no trial passed, the largest m gets the
rest: whether the threshold lies beyond it is the question then.

What the rounds ask for depends on the outcomes of earlier rounds alone, also after an interruption.
"""

from dataclasses import dataclass, field

from capax.cards.measuring.looks import Looks, evidence
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.search import GridSearch


@dataclass
class GridRounds:
    """The trials of a grid for all accuracies, as `Progress` drives it.

    scores: the trials that count; the question adds to them.
    aims: the accuracy at which the trials of the last round end, by their m.
    """

    grid: GridSearch
    accuracies: tuple[float, ...]
    scores: Looks
    aims: dict[int, float] = field(default_factory=dict, init=False)

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The missing trials of the first round that has some, the largest m first."""
        values = tuple(sorted(set(self.grid.m)))
        if not values:
            return ()
        half = -(-self.grid.trials // 2)
        for part in (values[len(values) // 2 :], values):
            self.aims = dict.fromkeys(part, max(self.accuracies))
            first = self.grid.model_copy(update={"m": part, "trials": half})
            if batch := first.next_round(counts, restarts):
                return batch
            best = {m: self._best(m, half) for m in part}
            if best[part[0]] < min(self.accuracies):
                break
        self.aims = aims_by_m(best, self.accuracies)
        return self.grid.model_copy(update={"m": tuple(self.aims)}).next_round(counts, restarts)

    def _best(self, m: int, number: int) -> float:
        """The best accuracy among the first trials at m that gave evidence."""
        looks = [look for (k, _), look in sorted(evidence(self.scores).items()) if k == m]
        return max(look.accuracy for look in looks[:number])


def aims_by_m(best: dict[int, float], accuracies: tuple[float, ...]) -> dict[int, float]:
    """The accuracy at which further trials end, for every m that needs some, by the best accuracy
    of the first trials at each m: the highest accuracy reached there or at a smaller m."""
    aims: dict[int, float] = {}
    for accuracy in sorted(accuracies):
        first = min((m for m in best if best[m] >= accuracy), default=max(best))
        aims |= {m: accuracy for m in best if m >= first}
    return aims
