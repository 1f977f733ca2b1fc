"""The whole curve eps -> N(S, eps) at once.

N is a falling step function that jumps only at pairwise distances, so the curve is known when it
is known on the sorted distinct distances. One farthest-first traversal brackets all of them; then
each exact solution gives one value and, since N is monotone, narrows all others: a larger eps
cannot need more centres, and a known cover with radius r is a cover for every eps >= r.
"""

import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from capax.capacity.arguments import check_nonnegative, check_positive
from capax.capacity.covers.covering_sets import Cover, covering_number
from capax.capacity.covers.metrics import FiniteSpace


@dataclass(frozen=True)
class CoverCurve:
    """N(S, .) between its jumps: on [eps[j], eps[j+1]) it lies in [lower[j], upper[j]].

    eps[0] = 0 stands for every radius below the smallest positive distance.
    """

    eps: Float[np.ndarray, "jumps"]
    lower: Int[np.ndarray, "jumps"]
    upper: Int[np.ndarray, "jumps"]
    tie: float | int
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether every value is known exactly."""
        return bool((self.lower == self.upper).all())

    def __call__(self, eps: float | int) -> tuple[int, int]:
        """The interval [lower, upper] of N(S, eps)."""
        check_positive("eps", eps)
        j = int(np.searchsorted(self.eps, eps * (1.0 + self.tie), side="right")) - 1
        return int(self.lower[j]), int(self.upper[j])

    def jumps(self) -> list[tuple[float, int]]:
        """(eps, N) where an exactly known N takes a new value, from the smallest eps on."""
        fresh = np.flatnonzero(np.diff(self.upper, prepend=-1))
        return [(float(self.eps[j]), int(self.upper[j])) for j in fresh]


def covering_curve(space: FiniteSpace, *, time_limit: float | int = 60.0) -> CoverCurve:
    """N(S, eps) for all eps; an interval for each value that the time limit leaves open."""
    check_nonnegative("time_limit", time_limit)
    start = time.monotonic()
    eps = candidate_radii(space)
    lower, upper = bracket_by_traversal(space, eps)
    while (open_values := np.flatnonzero(lower < upper)).size:
        remaining = start + time_limit - time.monotonic()
        if remaining <= 0:
            break
        j = _middle_of_widest_gap(open_values, lower, upper)
        _tighten(space, eps, lower, upper, j, _solve_at(space, eps, j, remaining))
    return CoverCurve(eps, lower, upper, space.tie, time.monotonic() - start)


def candidate_radii(space: FiniteSpace) -> Float[np.ndarray, "jumps"]:
    """0 and the distinct positive distances; distances that differ by rounding only are merged."""
    values = np.unique(space.distances)
    kept = [0.0]
    for value in values[values > 0]:
        if value > kept[-1] * (1.0 + space.tie):
            kept.append(float(value))
    return np.array(kept)


def farthest_first(space: FiniteSpace) -> tuple[list[int], Float[np.ndarray, "centres"]]:
    """Gonzalez' traversal: each new centre is the point farthest from the earlier ones.

    radius[k-1] = largest distance to the first k centres. The first k+1 of them are pairwise at
    least radius[k-1] apart: one traversal gives covers and packings of every size. It
    ends at radius 0.
    """
    order = [int(space.distances.max(axis=1).argmin())]
    nearest = space.distances[order[0]].copy()
    radius = [float(nearest.max())]
    while radius[-1] > 0:
        order.append(int(nearest.argmax()))
        np.minimum(nearest, space.distances[order[-1]], out=nearest)
        radius.append(float(nearest.max()))
    return order, np.array(radius)


def bracket_by_traversal(
    space: FiniteSpace, eps: Float[np.ndarray, "jumps"]
) -> tuple[Int[np.ndarray, "jumps"], Int[np.ndarray, "jumps"]]:
    """[lower, upper] of N at every candidate radius from one farthest-first traversal.

    k centres with radius[k-1] <= eps cover; k+1 centres pairwise more than 2 eps apart need k+1
    (the latter by the triangle inequality).
    """
    _, radius = farthest_first(space)
    reach = eps * (1.0 + space.tie)
    upper = 1 + (radius[None, :] > reach[:, None]).sum(axis=1)
    lower = 1 + (radius[None, :] > 2 * reach[:, None]).sum(axis=1)
    return (lower if space.triangle else np.ones_like(upper)), upper


def _solve_at(space: FiniteSpace, eps: Float[np.ndarray, "jumps"], j: int, seconds: float) -> Cover:
    radius = float(eps[j]) if j else float(eps[1] / 2 if len(eps) > 1 else 1.0)
    return covering_number(space, radius, time_limit=seconds)


def _tighten(
    space: FiniteSpace,
    eps: Float[np.ndarray, "jumps"],
    lower: Int[np.ndarray, "jumps"],
    upper: Int[np.ndarray, "jumps"],
    j: int,
    cover: Cover,
) -> None:
    """Use one solved radius for all others: N is monotone, and a cover serves beyond its radius."""
    radius = float(space.distances[:, list(cover.centres)].min(axis=1).max())
    serves = eps * (1.0 + space.tie) >= radius
    serves[j] = True
    np.minimum(upper, np.where(serves, cover.upper, len(space)), out=upper)
    np.maximum(lower[: j + 1], cover.lower, out=lower[: j + 1])


def _middle_of_widest_gap(
    open_values: Int[np.ndarray, "open"],
    lower: Int[np.ndarray, "jumps"],
    upper: Int[np.ndarray, "jumps"],
) -> int:
    """The middle of the longest run of unknown values that share one interval."""
    keys = lower[open_values] * (int(upper.max()) + 1) + upper[open_values]
    breaks = np.flatnonzero((np.diff(keys) != 0) | (np.diff(open_values) != 1)) + 1
    runs = np.split(open_values, breaks)
    longest = max(runs, key=len)
    return int(longest[len(longest) // 2])
