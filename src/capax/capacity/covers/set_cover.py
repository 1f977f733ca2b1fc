"""Minimum set cover, exactly: reductions first, then an integer program with a deadline.

    min sum_j x_j   subject to   sum_{j : ball j contains i} x_j >= 1 for every i,  x in {0,1}^n

Before the solver (SciPy's HiGHS) starts, the problem is reduced (a ball inside another ball is not
needed; a point that lies in every ball of some other point is covered for free), compared with the
greedy cover and a packing, and split into connected components. When the deadline comes first, the
answer is an interval whose lower end is proved and whose upper end is the size of a cover that was
found.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

Contains = Bool[np.ndarray, "points balls"]


@dataclass(frozen=True)
class SetCover:
    """A cover `chosen` (indices of balls) and a proved lower bound on the size of every cover."""

    chosen: tuple[int, ...]
    lower: int

    @property
    def upper(self) -> int:
        """The size of the cover that was found."""
        return len(self.chosen)


def greedy_set_cover(contains: Contains) -> tuple[int, ...]:
    """The ball with most uncovered points first; at most H(b) times the optimum, b = largest ball.

    H(b) = 1 + 1/2 + ... + 1/b <= ln b + 1 (Chvatal 1979).
    """
    gains = contains.sum(axis=0)
    uncovered = np.ones(len(contains), dtype=bool)
    chosen: list[int] = []
    while uncovered.any():
        best = int(gains.argmax())
        newly = uncovered & contains[:, best]
        gains = gains - contains[newly].sum(axis=0)
        uncovered &= ~newly
        chosen.append(best)
    return tuple(chosen)


def minimum_set_cover(contains: Contains, deadline: float) -> SetCover:
    """The smallest set of balls that contains every point, or an interval at the deadline.

    `deadline` is a value of `time.monotonic()`; the components share it.
    """
    points, balls = reduce(contains)
    small = contains[np.ix_(points, balls)]
    best = _greedy_interval(small)
    if best.lower < best.upper:
        best = _cover_by_components(small, deadline)
    return SetCover(tuple(sorted(int(balls[j]) for j in best.chosen)), best.lower)


def _cover_by_components(contains: Contains, deadline: float) -> SetCover:
    chosen: list[int] = []
    lower = 0
    for points, balls in components(contains):
        part = contains[np.ix_(points, balls)]
        best = _greedy_interval(part)
        if best.lower < best.upper:
            best = _solve(part, best, deadline)
        chosen += [int(balls[j]) for j in best.chosen]
        lower += best.lower
    return SetCover(tuple(chosen), lower)


def _greedy_interval(contains: Contains) -> SetCover:
    greedy = greedy_set_cover(contains)
    # greedy takes a ball that contains everything if there is one: more than one means at least two
    lower = max(num_disjoint_points(contains), min(2, len(greedy)))
    return SetCover(greedy, lower)


def components(contains: Contains) -> list[tuple[np.ndarray, np.ndarray]]:
    """Point and ball indices of every connected component of the bipartite incidence graph."""
    n, balls = contains.shape
    rows, columns = np.nonzero(contains)
    size = n + balls
    graph = csr_array((np.ones(len(rows), dtype=np.int8), (rows, columns + n)), shape=(size, size))
    count, label = connected_components(graph, directed=False)
    order = [np.flatnonzero(label == c) for c in range(count)]
    return [(part[part < n], part[part >= n] - n) for part in order if part[0] < n]


def reduce(contains: Contains) -> tuple[np.ndarray, np.ndarray]:
    """Points and balls that remain after dropping dominated ones, until nothing changes.

    Ball j is dropped when another ball contains all its points; point i is dropped when another
    point lies in a subset of i's balls (covering that one covers i). Neither changes the optimum.
    """
    points, balls = np.arange(contains.shape[0]), np.arange(contains.shape[1])
    while True:
        kept_balls = balls[~_inside_another(contains[np.ix_(points, balls)].T)]
        kept_points = points[~_contains_another(contains[np.ix_(points, kept_balls)])]
        if len(kept_balls) == len(balls) and len(kept_points) == len(points):
            return points, balls
        points, balls = kept_points, kept_balls


def _inside_another(sets: Bool[np.ndarray, "sets items"]) -> Bool[np.ndarray, "sets"]:
    """Which sets are contained in another one (of equal sets, all but the first)."""
    subset = _subset_matrix(sets)
    duplicate = np.tril(subset & subset.T, -1)
    return np.any(duplicate | (subset & ~subset.T), axis=1)


def _contains_another(sets: Bool[np.ndarray, "sets items"]) -> Bool[np.ndarray, "sets"]:
    """Which sets contain another one (of equal sets, all but the first)."""
    subset = _subset_matrix(sets)
    duplicate = np.tril(subset & subset.T, -1)
    return np.any(duplicate | (subset.T & ~subset), axis=1)


def _subset_matrix(sets: Bool[np.ndarray, "sets items"]) -> Bool[np.ndarray, "sets sets"]:
    """Entry (i, j): is set i a subset of set j? |A_i and A_j| = |A_i|, by one matrix product."""
    counts = sets.astype(np.float32)
    return (counts @ counts.T) == counts.sum(axis=1)[:, None]


def num_disjoint_points(contains: Contains) -> int:
    """Points found greedily of which no two share a ball: each needs a ball of its own."""
    shared = contains.astype(np.float32) @ contains.T.astype(np.float32) > 0
    free = np.ones(len(contains), dtype=bool)
    count = 0
    for i in np.argsort(shared.sum(axis=1), kind="stable"):
        if free[i]:
            count += 1
            free &= ~shared[i]
    return count


def _solve(contains: Contains, known: SetCover, deadline: float) -> SetCover:
    """The integer program, started from the `known` cover."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        return known
    answer = milp(
        np.ones(contains.shape[1]),
        integrality=np.ones(contains.shape[1]),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(csr_array(contains.astype(np.float64)), lb=1),
        options={"time_limit": remaining, "mip_rel_gap": 0.0},
    )
    chosen = _better_cover(contains, answer.x, known.chosen)
    if answer.status == 0:
        return SetCover(chosen, len(chosen))
    proved = answer.mip_dual_bound
    usable = proved is not None and math.isfinite(proved)
    return SetCover(chosen, max(known.lower, math.ceil(proved - 1e-6)) if usable else known.lower)


def _better_cover(
    contains: Contains, x: np.ndarray | None, known: tuple[int, ...]
) -> tuple[int, ...]:
    """The solver's cover if it is a valid cover and smaller."""
    if x is None:
        return known
    found = tuple(int(j) for j in np.flatnonzero(x > 0.5))
    covers = contains[:, list(found)].any(axis=1).all()
    return found if covers and len(found) < len(known) else known
