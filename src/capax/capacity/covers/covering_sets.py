"""Covering numbers of finite sets under any pseudometric: exact, greedy, or a proved interval.

    N(S, eps) = min{ |C| : C subset of S, every a in S has a c in C with d(a, c) <= eps }

Centres belong to the set (an internal cover), balls are closed. N falls as eps grows, jumps only at
pairwise distances, and lies between packing numbers: M(2 eps) <= N(eps) <= M(eps).
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from capax.capacity.arguments import check_nonnegative, check_positive
from capax.capacity.covers.metrics import FiniteSpace
from capax.capacity.covers.set_cover import greedy_set_cover, minimum_set_cover

LINE_METRICS = ("euclidean", "manhattan", "chebyshev")


@dataclass(frozen=True)
class Cover:
    """A cover that was found (`centres`, indices into the set), and proved limits for the best one.

    lower <= N(S, eps) <= upper = len(centres); `exact` is that number when both ends agree and
    None otherwise. method: "sweep" (points on a line), "set cover" or "greedy".
    guarantee: for greedy covers, upper <= guarantee * N(S, eps).

    Examples:
        >>> import capax
        >>> found = capax.cover([0.0, 1.0, 5.0], eps=1.0)
        >>> found.lower, found.upper, found.method
        (2, 2, 'sweep')
    """

    eps: float
    lower: int
    centres: tuple[int, ...]
    method: str
    seconds: float
    guarantee: float = 1.0

    @property
    def upper(self) -> int:
        """The number of centres that were found."""
        return len(self.centres)

    @property
    def exact(self) -> int | None:
        """N(S, eps) if it is known."""
        return self.upper if self.lower == self.upper else None


def covering_number(
    space: FiniteSpace, eps: float | int, *, time_limit: float | int = 60.0
) -> Cover:
    """N(S, eps) with an optimal cover; after `time_limit` seconds an interval [lower, upper].

    Points on a line are swept from left to right; other sets are a minimum set cover.
    """
    check_positive("eps", eps)
    check_nonnegative("time_limit", time_limit)
    start = time.monotonic()
    if _on_a_line(space):
        centres = sweep(space, eps)
        return Cover(float(eps), len(centres), centres, "sweep", time.monotonic() - start)
    best = minimum_set_cover(space.within(eps), start + time_limit)
    seconds = time.monotonic() - start
    return Cover(float(eps), best.lower, best.chosen, "set cover", seconds)


def greedy_cover(space: FiniteSpace, eps: float | int) -> Cover:
    """The ball with most uncovered points first: at most H(b) N(S, eps), b = the largest ball.

    H is the harmonic number, H(b) <= ln b + 1; hence also a lower bound size/H(b) on N.
    """
    start = time.monotonic()
    contains = space.within(eps)
    centres = greedy_set_cover(contains)
    guarantee = harmonic(int(contains.sum(axis=0).max()))
    lower = math.ceil(len(centres) / guarantee - 1e-9)
    return Cover(float(eps), lower, centres, "greedy", time.monotonic() - start, guarantee)


def sweep(space: FiniteSpace, eps: float | int) -> tuple[int, ...]:
    """The optimal cover of points on a line: the leftmost uncovered point takes the rightmost
    point within eps as its centre, and so on."""
    check_positive("eps", eps)
    assert space.points is not None, "the sweep needs coordinates"
    order = np.argsort(space.points[:, 0], kind="stable")
    x, reach = space.points[order, 0], eps * (1.0 + space.tie)
    centres: list[int] = []
    first = 0
    while first < len(x):
        centre = int(np.searchsorted(x - x[first], reach, side="right")) - 1
        centres.append(int(order[centre]))
        first = int(np.searchsorted(x - x[centre], reach, side="right"))
    return tuple(centres)


def is_cover(space: FiniteSpace, centres: tuple[int, ...], eps: float | int) -> bool:
    """Does every point lie within eps of one of the centres?"""
    return bool(space.within(eps)[:, list(centres)].any(axis=1).all())


def harmonic(n: int) -> float:
    """H(n) = 1 + 1/2 + ... + 1/n."""
    return math.fsum(1 / i for i in range(1, n + 1))


def _on_a_line(space: FiniteSpace) -> bool:
    points = space.points
    return points is not None and points.shape[1] == 1 and space.metric in LINE_METRICS
