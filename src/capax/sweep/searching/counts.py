"""Outcomes counted: of so many trials with m examples, so many were solved."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from capax.errors import require

TARGET = 0.8
"""m* is the smallest m at which a trial succeeds with at least this probability."""


@dataclass(frozen=True)
class Counts:
    """`solved[i]` of `total[i]` trials succeeded with `m[i]` examples; m increases."""

    m: tuple[int, ...]
    solved: tuple[int, ...]
    total: tuple[int, ...]

    def __post_init__(self) -> None:
        require(len(self.m) == len(self.solved) == len(self.total), "counts", "equal lengths", self)
        for m, solved, total in zip(self.m, self.solved, self.total, strict=True):
            require(m >= 1, "m", "at least 1", m)
            require(0 <= solved <= total, "solved", f"between 0 and total = {total}", solved)

    @classmethod
    def of(cls, outcomes: Sequence[tuple[int, bool]]) -> "Counts":
        """Count (m, solved) pairs, one per trial."""
        values = sorted({m for m, _ in outcomes})
        solved = dict.fromkeys(values, 0)
        total = dict.fromkeys(values, 0)
        for m, success in outcomes:
            total[m] += 1
            solved[m] += int(success)
        return cls(tuple(values), tuple(solved.values()), tuple(total.values()))

    @property
    def trials(self) -> int:
        return sum(self.total)

    def joined(self, other: "Counts") -> "Counts":
        """The outcomes of both."""
        values = sorted({*self.m, *other.m})
        solved, total = dict.fromkeys(values, 0), dict.fromkeys(values, 0)
        for one in (self, other):
            for m, k, n in zip(one.m, one.solved, one.total, strict=True):
                solved[m] += k
                total[m] += n
        return Counts(tuple(values), tuple(solved.values()), tuple(total.values()))

    def up_to(self, largest: int) -> "Counts":
        """The outcomes with m <= `largest`."""
        n = sum(m <= largest for m in self.m)
        return Counts(self.m[:n], self.solved[:n], self.total[:n])


NOTHING = Counts((), (), ())
"""No trial at all."""


def isotonic_rates(counts: Counts) -> Float[ndarray, " i"]:
    """Success rates pooled until they do not decrease with m: a check without a model."""
    blocks: list[list[float]] = []
    for solved, total in zip(counts.solved, counts.total, strict=True):
        blocks.append([float(solved), float(total), 1.0])
        while len(blocks) > 1 and _rate(blocks[-2]) >= _rate(blocks[-1]):
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    return np.concatenate([np.full(int(b[2]), _rate(b)) for b in blocks] or [np.zeros(0)])


def _rate(block: list[float]) -> float:
    return block[0] / block[1] if block[1] else 0.0


def isotonic_threshold(counts: Counts, target: float = TARGET) -> int | None:
    """The smallest tried m with an isotonic success rate of at least `target`, or `None`."""
    reached: Bool[ndarray, " i"] = isotonic_rates(counts) >= target
    return counts.m[int(np.argmax(reached))] if reached.any() else None
