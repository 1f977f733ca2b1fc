"""The two rounds of a grid: half of the trials at every m, then the rest where outcomes are mixed.

At an m far above the thresholds all trials pass, far below them none does: twice as many trials
there say little more, and at large m they take most of the time.
"""

from dataclasses import dataclass

from capax.cards.measuring.looks import BestLook, Looks, evidence
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.search import GridSearch

_PLATEAU = 3  # m above a threshold at which trials show that success stays


@dataclass(frozen=True)
class GridRounds:
    """The trials of a grid for all accuracies, as `Progress` drives it.

    scores: the trials that count; the question adds to them.
    """

    grid: GridSearch
    accuracies: tuple[float, ...]
    scores: Looks

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The missing trials of the first round, then those of the second; none at the end."""
        first = self.grid.model_copy(update={"trials": -(-self.grid.trials // 2)})
        if batch := first.next_round(counts, restarts):
            return batch
        mixed = self._mixed(first.trials)
        wanted = tuple(m for m in self.grid.m if m in mixed)
        rest = self.grid.model_copy(update={"m": wanted})
        return rest.next_round(counts, restarts)

    def _mixed(self, number: int) -> set[int]:
        """Every m that is open at some accuracy, by its first `number` trials: so the answer stays
        the same while the second round adds trials, also after an interruption."""
        seen = {m: self._first(m, number) for m in sorted(set(self.grid.m))}
        passed = [{m: _share(looks, a) for m, looks in seen.items()} for a in self.accuracies]
        return {m for shares in passed for m in open_m(shares)}

    def _first(self, m: int, number: int) -> list[BestLook]:
        """The first trials at m that gave evidence."""
        return [look for (k, _), look in sorted(evidence(self.scores).items()) if k == m][:number]


def _share(looks: list[BestLook], accuracy: float) -> float:
    return sum(look.accuracy >= accuracy for look in looks) / len(looks)


def open_m(passed: dict[int, float]) -> list[int]:
    """The m that need all their trials, by the share of the first trials that passed at each m.

    All of them from the first m at which a trial passed to the last one at which a trial failed,
    where the threshold lies, and the next `_PLATEAU` above: the upper end of an interval is known
    when success is seen to stay above 80 %, and trials are cheapest there. Where every trial
    failed, the largest m: whether the threshold lies beyond it is the question then.
    """
    values = sorted(passed)
    first = next((i for i, m in enumerate(values) if passed[m] > 0), len(values) - 1)
    failed = [i for i, m in enumerate(values) if passed[m] < 1]
    return values[first : max(failed, default=-1) + 1 + _PLATEAU]
