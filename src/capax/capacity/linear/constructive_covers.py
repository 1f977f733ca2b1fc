"""The covers of linear classes themselves, not only their size: for each member, its centre.

The Perceptron cover of {x -> w.x : ||w|| <= a} on x_1..x_N, ||x_n|| <= b: walk from 0 towards w by
steps eps/b^2 sign((w - w_t).x_n) x_n while some n is off by more than eps. Each step lowers
||w - w_t||^2 by more than eps^2/b^2, so the walk ends after K < (ab/eps)^2 steps, at a point
eps/b^2 sum_n c_n x_n: the centre of w is the integer vector c, ||c||_1 <= K. All such c together
are the cover.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from capax.capacity.arguments import check_finite, check_positive
from capax.capacity.covers.delannoy import log_delannoy_bound
from capax.capacity.covers.metrics import as_floats
from capax.capacity.linear.linear_classes import num_levels, num_updates
from capax.errors import InfeasibleError, require

MAX_ELEMENTS = 1_000_000


@dataclass(frozen=True)
class Walk:
    """Where a Perceptron walk ended: the vector, its integer coefficients, the steps taken."""

    vector: Float[np.ndarray, "d"]
    coefficients: Int[np.ndarray, "N"]
    steps: int


def perceptron_walk(
    w: Float[np.ndarray, "d"],
    X: Float[np.ndarray, "N d"],
    eps: float | int,
    b: float | int,
    radius: float | int = math.inf,
) -> Walk:
    """The walk from 0 that ends within eps of w on every row of X (worst row first).

    A finite `radius` projects onto that ball after each step: then the end point belongs to the
    class (internal cover), but it is no longer determined by the coefficients alone.
    """
    current = np.zeros_like(w)
    coefficients = np.zeros(len(X), dtype=np.int64)
    for step in itertools.count():
        gaps = X @ (w - current)
        worst = int(np.abs(gaps).argmax())
        if abs(gaps[worst]) <= eps:
            return Walk(current, coefficients, step)
        sign = 1 if gaps[worst] > 0 else -1
        coefficients[worst] += sign
        current = current + (eps / b**2) * sign * X[worst]
        length = float(np.linalg.norm(current))
        current = current * (radius / length) if length > radius else current
    raise AssertionError("unreachable: the walk ends after finitely many steps")


@dataclass(frozen=True)
class VectorCover:
    """The external eps-cover of {x -> w.x : ||w|| <= a} on the rows of X; see `vector_cover`."""

    X: Float[np.ndarray, "N d"]
    a: float
    b: float
    eps: float

    @property
    def num_steps(self) -> int:
        """K: no walk takes more steps."""
        return int(num_updates(self.a, self.b, self.eps))

    @property
    def log_size(self) -> float:
        """An upper bound on ln of the number of centres, ln D(N, K)."""
        return log_delannoy_bound(len(self.X), self.num_steps)

    def centre_of(self, w: object) -> Walk:
        """The centre within eps of w on every sample point. Raises `InputError` if ||w|| > a."""
        vector = as_floats("w", w)
        require(vector.shape == self.X.shape[1:], "w", f"shape {self.X.shape[1:]}", vector.shape)
        check_finite("w", vector)
        length = float(np.linalg.norm(vector))
        require(length <= self.a * (1 + 1e-12), "w", f"norm at most a = {self.a:g}", length)
        return perceptron_walk(vector, self.X, self.eps, self.b)

    def centres(self) -> Iterator[Float[np.ndarray, "d"]]:
        """Every centre, eps/b^2 sum_n c_n x_n over integer c with ||c||_1 <= K.

        Raises `InfeasibleError` when there may be more than a million.
        """
        if self.log_size > math.log(MAX_ELEMENTS):
            raise InfeasibleError(
                f"centres: at most {MAX_ELEMENTS} can be listed, this cover may have "
                f"exp({self.log_size:.1f}); centre_of(w) finds single ones"
            )
        for c in l1_ball_points(len(self.X), self.num_steps):
            yield (self.eps / self.b**2) * (np.array(c, dtype=np.float64) @ self.X)


def vector_cover(X: object, a: float | int, eps: float | int) -> VectorCover:
    """The Perceptron cover of {x -> w.x : ||w||_2 <= a} on the rows of X, radius eps."""
    points = _check_points(X)
    require(0 <= a < math.inf, "a", "a finite number >= 0", a)
    check_positive("eps", eps)
    return VectorCover(points, float(a), _largest_norm(points), float(eps))


@dataclass(frozen=True)
class MatrixCentre:
    """A centre of a matrix cover: the matrix, each row's rounded size (0 = row set to zero)
    and the total number of steps."""

    matrix: Float[np.ndarray, "k d"]
    levels: Int[np.ndarray, "k"]
    steps: int


@dataclass(frozen=True)
class MatrixCover:
    """The external cover of {x -> Wx : ||W^T||_{2,1} <= B} of Lemma 4.6; see `matrix_cover`."""

    X: Float[np.ndarray, "N d"]
    B: float
    b: float
    eps: float
    k: int
    rho: float

    @property
    def num_steps(self) -> int:
        """The largest integer below rho (bB/eps)^2: no centre takes more steps in all its rows."""
        return int(num_updates(self.B, self.b, self.eps, self.rho))

    @property
    def log_size(self) -> float:
        """ln D(k L N, K), L = number of sizes a row can be rounded to; 0 if bB <= eps."""
        if self.num_steps == 0:
            return 0.0
        L = num_levels(math.log(self.b * self.B / self.eps), self.rho)
        return log_delannoy_bound(self.k * L * len(self.X), self.num_steps)

    def centre_of(self, W: object) -> MatrixCentre:
        """The centre within eps of W on every sample point. `InputError` if ||W^T||_{2,1} > B."""
        matrix = as_floats("W", W)
        shape = (self.k, self.X.shape[1])
        require(matrix.shape == shape, "W", f"shape {shape}", matrix.shape)
        check_finite("W", matrix)
        norms = np.linalg.norm(matrix, axis=1)
        total = float(norms.sum())
        wanted = f"sum of row norms at most B = {self.B:g}"
        require(total <= self.B * (1 + 1e-12), "W", wanted, total)
        return self._walk_rows(matrix, norms)

    def _walk_rows(
        self, W: Float[np.ndarray, "k d"], norms: Float[np.ndarray, "k"]
    ) -> MatrixCentre:
        centre, levels, steps = np.zeros_like(W), np.zeros(self.k, dtype=np.int64), 0
        if self.num_steps == 0:
            return MatrixCentre(centre, levels, 0)
        u = self.B / (self.rho * (self.b * self.B / self.eps) ** 2)
        for i, norm in enumerate(norms):
            if norm <= u:
                continue
            levels[i] = max(1, math.ceil(math.log(norm / u) / math.log(self.rho)))
            size = u * self.rho ** float(levels[i])
            walk = perceptron_walk(
                W[i], self.X, self.eps * math.sqrt(size / (self.rho * self.B)), self.b
            )
            centre[i], steps = walk.vector, steps + walk.steps
        return MatrixCentre(centre, levels, steps)


def matrix_cover(
    X: object, B: float | int, eps: float | int, k: int, rho: float | int = 2.0
) -> MatrixCover:
    """The cover of Lemma 4.6 on the rows of X for matrices W with k rows.

    Rows of norm at most u = B/(rho M), M = (bB/eps)^2, become 0; the others are rounded up to a
    size u rho^j and get tolerance^2 = eps^2 u rho^j/(rho B), which sum to at most eps^2.
    """
    points = _check_points(X)
    require(0 <= B < math.inf, "B", "a finite number >= 0", B)
    check_positive("eps", eps)
    require(k >= 1, "k", "an integer >= 1", k)
    require(1 < rho < math.inf, "rho", "a number > 1", rho)
    return MatrixCover(points, float(B), _largest_norm(points), float(eps), k, float(rho))


def l1_ball_points(N: int, K: int) -> Iterator[tuple[int, ...]]:
    """All integer vectors of length N with sum of absolute values at most K."""
    if N == 0:
        yield ()
        return
    for first in range(-K, K + 1):
        for rest in l1_ball_points(N - 1, K - abs(first)):
            yield (first, *rest)


def _check_points(X: object) -> Float[np.ndarray, "N d"]:
    points = as_floats("X", X)
    require(points.ndim == 2, "X", "a table with one sample per row", f"shape {points.shape}")
    check_finite("X", points)
    return points


def _largest_norm(points: Float[np.ndarray, "N d"]) -> float:
    """b = max_n ||x_n||; 1 if all samples are zero (every function is then 0 on them)."""
    return float(np.linalg.norm(points, axis=1).max()) or 1.0
