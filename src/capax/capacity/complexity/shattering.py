"""Shattering by finite classes: one search behind VC dimension and fat-shattering dimension.

A *test* calls each function high, low, or neither. A set of tests is shattered when every
pattern of high/low answers is given by some function. For VC dimension a test is a point of the
domain (value 1 or 0); for fat-shattering it is a point with a witness r (f >= r + gamma or
f <= r - gamma). Subsets of shattered sets are shattered, so a depth-first search with pruning is
exact: k more tests need at least 2^k functions behind every pattern so far.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from capax.errors import InfeasibleError, require

MAX_STEPS = 2_000_000


@dataclass(frozen=True)
class Shattered:
    """A largest shattered set: its size and the tests in it."""

    dimension: int
    tests: tuple[int, ...]


@dataclass
class _Search:
    """The state of the depth-first search; functions are bits of Python integers."""

    high: list[int]
    low: list[int]
    point: list[int]
    best: tuple[int, ...] = ()
    steps: int = 0

    def extend(self, chosen: tuple[int, ...], patterns: list[int]) -> None:
        """Try every later test on top of a shattered set, whose patterns' functions are given."""
        room = min(p.bit_count() for p in patterns).bit_length() - 1
        if len(chosen) > len(self.best):
            self.best = chosen
        if len(chosen) + room <= len(self.best):
            return
        used = {self.point[t] for t in chosen}
        for t in range(chosen[-1] + 1 if chosen else 0, len(self.high)):
            self.steps += len(patterns)
            if self.steps > MAX_STEPS:
                raise InfeasibleError(
                    f"shattering: more than {MAX_STEPS} steps; the dimension is at least "
                    f"{len(self.best)}, give fewer functions or points"
                )
            if self.point[t] not in used:
                halves = [p & side[t] for p in patterns for side in (self.high, self.low)]
                if all(halves):
                    self.extend((*chosen, t), halves)


def largest_shattered(
    high: Bool[np.ndarray, "functions tests"],
    low: Bool[np.ndarray, "functions tests"],
    point: Int[np.ndarray, "tests"],
) -> Shattered:
    """The largest shattered set of tests at distinct points; `point[t]` is the point of test t.

    Raises `InfeasibleError` after 2 million steps, naming the dimension reached.
    """
    require(len(high) > 0, "values", "at least one function", len(high))
    search = _Search(_as_bits(high), _as_bits(low), [int(x) for x in point])
    search.extend((), [2 ** len(high) - 1])
    return Shattered(len(search.best), search.best)


def _as_bits(answers: Bool[np.ndarray, "functions tests"]) -> list[int]:
    """Each column as an integer whose bit f tells whether function f answers yes."""
    packed = np.packbits(answers, axis=0, bitorder="little")
    return [int.from_bytes(column.tobytes(), "little") for column in packed.T]
