"""Finite pseudometric spaces: points with a named metric, or a checked matrix of distances.

A pseudometric has d(a, a) = 0, d(a, b) = d(b, a) >= 0 and the triangle inequality (two different
points may be at distance 0: two functions that agree on the sample).

Ties. Balls are closed, d <= eps, so a distance that *equals* eps counts: the covering number of
{(0.5, 0.7), (0.2, 0.3), (0.6, 0.65)} at eps = 0.5 is 1, because 0.3^2 + 0.4^2 = 0.5^2 exactly, and
floats must not turn that into 2. The rule everywhere in this folder: d <= eps (1 + tie), with
tie = 1e-9, and "farther than eps" is its negation. `tie=0` compares floats as they are.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial.distance import cdist

from capax.capacity.arguments import check_finite, check_positive
from capax.errors import InfeasibleError, InputError, require

TIE = 1e-9
MAX_POINTS = 12_000

METRICS = ("euclidean", "manhattan", "chebyshev", "hamming", "angular")


@dataclass(frozen=True)
class FiniteSpace:
    """n points known by their distances; `points` and `metric` are kept for drawing.

    `tie` is the relative tolerance of d <= eps (see the top of this file); `triangle` tells whether
    the triangle inequality may be used.
    """

    distances: Float[np.ndarray, "n n"]
    points: Float[np.ndarray, "n d"] | None = None
    metric: str = "given"
    tie: float | int = TIE
    triangle: bool = True

    def __len__(self) -> int:
        return len(self.distances)

    def within(self, eps: float | int) -> Bool[np.ndarray, "n n"]:
        """Entry (i, j): does the closed eps-ball around j contain i?"""
        check_positive("eps", eps)
        return self.distances <= eps * (1.0 + self.tie)

    @property
    def diameter(self) -> float:
        """The largest distance."""
        return float(self.distances.max())


def space_from_points(
    points: object, metric: str = "euclidean", *, tie: float = TIE
) -> FiniteSpace:
    """The space of the rows of `points` (a list of numbers is a set of points on the line).

    metric: euclidean, manhattan, chebyshev, hamming (number of differing coordinates) or angular
    (angle between vectors, in radians). Raises `InputError` for NaN, infinities, no points, an
    unknown metric, and for a zero vector under `angular`.
    """
    array = as_floats("points", points)
    array = array[:, None] if array.ndim == 1 else array
    require(array.ndim == 2, "points", "a table with one point per row", f"shape {array.shape}")
    check_finite("points", array)
    _check_size(len(array))
    return FiniteSpace(distance_matrix(array, metric), array, metric, tie)


def space_from_distances(
    distances: object, *, triangle: bool = True, tie: float | int = TIE
) -> FiniteSpace:
    """The space of a square matrix of distances.

    `triangle=False` skips the check of the triangle inequality (n^3 steps) and the one shortcut
    that relies on it (the lower end of a covering curve's first bracket).

    Raises `InputError` naming the first entry that breaks a rule: square, finite, not negative,
    zero diagonal, symmetric (the last three up to a rounding error of 1e-9 of the largest entry).
    """
    D = as_floats("distances", distances)
    square = D.ndim == 2 and D.shape[0] == D.shape[1]
    require(square, "distances", "a square matrix", f"shape {D.shape}")
    check_finite("distances", D)
    _check_size(len(D))
    slack = 1e-9 * float(np.abs(D).max())
    _refuse_where(D + slack < 0, "entries >= 0", D)
    _refuse_where(np.diag(np.abs(np.diag(D)) > slack), "a zero diagonal", D)
    _refuse_where(np.abs(D - D.T) > slack, "a symmetric matrix", D)
    D = np.maximum(0.0, (D + D.T) / 2)
    np.fill_diagonal(D, 0.0)
    if triangle:
        check_triangle(D)
    return FiniteSpace(D, tie=tie, triangle=triangle)


def distance_matrix(points: Float[np.ndarray, "n d"], metric: str) -> Float[np.ndarray, "n n"]:
    """All pairwise distances, exactly symmetric with a zero diagonal."""
    require(metric in METRICS, "metric", "one of " + ", ".join(METRICS), metric)
    if metric == "angular":
        D = _angles(points)
    elif metric == "hamming":
        D = cdist(points, points, "hamming") * points.shape[1]
    elif metric == "manhattan":
        D = cdist(points, points, "cityblock")
    elif metric == "chebyshev":
        D = cdist(points, points, "chebyshev")
    else:
        D = cdist(points, points, "euclidean")
    require(np.isfinite(D).all(), "points", "distances that fit a float", "an overflow")
    D = np.maximum(D, D.T)
    np.fill_diagonal(D, 0.0)
    return D


def _angles(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    require(lengths.min() > 0, "points", "no zero vector under the angular metric", 0.0)
    unit = points / lengths
    # the arcsine of half the chord keeps small angles accurate, where an arccosine would not
    return 2 * np.arcsin(np.minimum(1.0, cdist(unit, unit, "euclidean") / 2))


def check_triangle(D: Float[np.ndarray, "n n"]) -> None:
    """Raise `InputError` naming i, j, k if d(i,k) > d(i,j) + d(j,k) beyond rounding."""
    slack = 1e-9 * float(D.max())
    for j in range(len(D)):
        detour = D[:, j][:, None] + D[j][None, :] + slack
        broken = np.argwhere(detour < D)
        if len(broken):
            i, k = broken[0]
            raise InputError(
                f"distances: wanted the triangle inequality, got d({i},{k}) = {D[i, k]:g} > "
                f"d({i},{j}) + d({j},{k}) = {D[i, j] + D[j, k]:g}"
            )


def as_floats(name: str, values: object) -> Float[np.ndarray, "..."]:
    """A float64 copy; `InputError` if the entries are not numbers or the rows differ in length."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: wanted a table of numbers, got {error}") from error


def _refuse_where(bad: Bool[np.ndarray, "n n"], wanted: str, D: Float[np.ndarray, "n n"]) -> None:
    if bad.any():
        i, j = (int(x) for x in np.argwhere(bad)[0])
        mirrored = f", d({j},{i}) = {D[j, i]:g}" if i != j else ""
        raise InputError(f"distances: wanted {wanted}, got d({i},{j}) = {D[i, j]:g}{mirrored}")


def _check_size(n: int) -> None:
    if n > MAX_POINTS:
        gigabytes = math.ceil(8 * n * n / 1e9)
        raise InfeasibleError(
            f"points: at most {MAX_POINTS} (all distances are held at once), "
            f"got {n} points, which need {gigabytes} GB"
        )
