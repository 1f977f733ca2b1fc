"""Packing numbers: how many points of a set are pairwise farther apart than delta.

    M(S, delta) = max{ |P| : P subset of S, d(p, p') > delta for all p != p' in P }

Two points of a 2 eps-packing never share an eps-ball, and a maximal eps-packing is an eps-cover:
M(S, 2 eps) <= N(S, eps) <= M(S, eps). So a packing *proves* that no smaller cover exists.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from capax.capacity.arguments import check_nonnegative, check_positive
from capax.capacity.covers.metrics import FiniteSpace

MAX_EDGES = 200_000
Near = Bool[np.ndarray, "n n"]


@dataclass(frozen=True)
class Packing:
    """A packing that was found (`points`, indices) and a proved upper bound on every packing."""

    points: tuple[int, ...]
    upper: int
    delta: float
    seconds: float

    @property
    def lower(self) -> int:
        """The number of points that were found."""
        return len(self.points)

    @property
    def exact(self) -> int | None:
        """M(S, delta) if it is known."""
        return self.lower if self.lower == self.upper else None


def packing_number(
    space: FiniteSpace, delta: float | int, *, time_limit: float | int = 60.0
) -> Packing:
    """M(S, delta) with a largest packing; after `time_limit` seconds an interval.

    A maximum independent set of the graph "d <= delta", by an integer program over its cliques.
    Beyond 200 000 edges per component only the greedy interval is given.
    """
    check_positive("delta", delta)
    check_nonnegative("time_limit", time_limit)
    start = time.monotonic()
    near = space.within(delta)
    count, label = connected_components(csr_array(near), directed=False)
    points: list[int] = []
    upper = 0
    for c in range(count):
        part = np.flatnonzero(label == c)
        best, proved = _pack_component(near[np.ix_(part, part)], start + time_limit)
        points += [int(part[i]) for i in best]
        upper += proved
    return Packing(tuple(sorted(points)), upper, float(delta), time.monotonic() - start)


def greedy_packing(space: FiniteSpace, delta: float | int) -> Packing:
    """A maximal packing, points with fewest neighbours first; upper end from cliques.

    Maximal, so also a delta-cover. Points pairwise within delta (a clique) hold at most one point
    of a packing: a partition into cliques bounds M(S, delta) from above.
    """
    start = time.monotonic()
    near = space.within(delta)
    return Packing(_greedy(near), num_cliques(near), float(delta), time.monotonic() - start)


def is_packing(space: FiniteSpace, points: tuple[int, ...], delta: float | int) -> bool:
    """Are the points pairwise farther apart than delta?"""
    near = space.within(delta)[np.ix_(list(points), list(points))]
    return int(near.sum()) == len(points)


def _pack_component(near: Near, deadline: float) -> tuple[tuple[int, ...], int]:
    """A packing of one component and an upper bound on all of them."""
    greedy, upper = _greedy(near), num_cliques(near)
    edges = (int(near.sum()) - len(near)) // 2
    if len(greedy) == upper or edges > MAX_EDGES or time.monotonic() >= deadline:
        return greedy, upper
    return _solve(near, greedy, upper, deadline)


def _greedy(near: Near) -> tuple[int, ...]:
    free = np.ones(len(near), dtype=bool)
    chosen: list[int] = []
    for i in np.argsort(near.sum(axis=1), kind="stable"):
        if free[i]:
            chosen.append(int(i))
            free &= ~near[i]
    return tuple(chosen)


def num_cliques(near: Near) -> int:
    """The size of a greedy partition of the points into cliques of the graph "d <= delta"."""
    left = near.copy()
    count = 0
    for i in np.argsort(near.sum(axis=1), kind="stable"):
        if left[i, i]:
            count += 1
            clique = _grow_clique(left, [int(i)])
            left[clique] = False
            left[:, clique] = False
    return count


def clique_cover_of_edges(near: Near) -> list[np.ndarray]:
    """Cliques that together contain every edge: at most one point of each can be chosen.

    Cliques make the linear relaxation far tighter than single edges x_i + x_j <= 1.
    """
    open_edges = np.triu(near, 1)
    cliques = []
    for i in range(len(near)):
        while open_edges[i].any():
            clique = _grow_clique(near, [i, int(np.argmax(open_edges[i]))])
            open_edges[np.ix_(clique, clique)] = False
            cliques.append(clique)
    return cliques


def _grow_clique(near: Near, members: list[int]) -> np.ndarray:
    """A maximal clique that contains the given ones."""
    common = np.logical_and.reduce(near[members], axis=0)
    common[members] = False
    while common.any():
        members.append(int(np.argmax(common)))
        common &= near[members[-1]]
        common[members[-1]] = False
    return np.sort(members)


def _solve(
    near: Near, greedy: tuple[int, ...], upper: int, deadline: float
) -> tuple[tuple[int, ...], int]:
    n, cliques = len(near), clique_cover_of_edges(near)
    rows = np.repeat(np.arange(len(cliques)), [len(c) for c in cliques])
    columns = np.concatenate(cliques)
    A = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(cliques), n))
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        return greedy, upper
    answer = milp(
        -np.ones(n),
        integrality=np.ones(n),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(A, ub=1),
        options={"time_limit": remaining, "mip_rel_gap": 0.0},
    )
    chosen = greedy
    if answer.x is not None and round(float(answer.x.sum())) > len(greedy):
        chosen = tuple(int(i) for i in np.flatnonzero(answer.x > 0.5))
    if answer.status == 0:
        return chosen, len(chosen)
    proved = answer.mip_dual_bound
    usable = proved is not None and math.isfinite(proved)
    return chosen, min(upper, math.floor(-proved + 1e-6)) if usable else upper
