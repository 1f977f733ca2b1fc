"""A grid of m in two rounds: half of the trials at every other m, then the rest where they tell.

Below the m up to which nothing passes, and above twice the m from which on all pass, more trials
repeat what is known. An accuracy that no trial reached, with those at the largest m, asks for none:
m* lies beyond.
"""

from collections import Counter
from dataclasses import dataclass

from capax.cards.measuring.looks import Looks, evidence
from capax.cards.measuring.rounds import counts_at
from capax.sweep.counts import Counts
from capax.sweep.search import GridSearch

_BEYOND = 2  # times the m from which on all pass: 17 trials must pass to show a plateau above 80 %


@dataclass(frozen=True)
class GridRounds:
    """The trials of a grid for every accuracy, as `Progress` drives it.

    scores: the trials that count; the question adds to them.
    """

    grid: GridSearch
    accuracies: tuple[float, ...]
    scores: Looks

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The trials that are missing, the largest m first; the second round after the first."""
        del counts, restarts
        half = -(-self.grid.trials // 2)
        falling = sorted(set(self.grid.m), reverse=True)
        return self._missing(falling[::2], half) or self._missing(self._open(falling), 2 * half)

    def _missing(self, values: list[int], trials: int) -> tuple[int, ...]:
        done = Counter(m for m, _ in evidence(self.scores))
        wanted = min(trials, self.grid.trials)
        return tuple(m for m in values for _ in range(wanted - done[m]))

    def _open(self, values: list[int]) -> list[int]:
        """Those at which the outcome is open, at one of the accuracies at least."""
        ranges = [open_at(counts_at(self.scores, accuracy)) for accuracy in self.accuracies]
        return [m for m in values if any(r is not None and r[0] <= m <= r[1] for r in ranges)]


def open_at(counts: Counts) -> tuple[int, int] | None:
    """From the m up to which nothing passes, to twice that from which on all pass."""
    if not any(counts.solved):
        return None
    outcomes = list(zip(counts.m, counts.solved, counts.total, strict=True))
    first = next(i for i, (_, solved, _) in enumerate(outcomes) if solved)
    low = outcomes[first - 1][0] if first else counts.m[0]
    failed = [i for i, (_, solved, total) in enumerate(outcomes) if solved < total]
    won = outcomes[max(failed) + 1 :] if failed else outcomes
    return low, _BEYOND * won[0][0] if won else counts.m[-1]
