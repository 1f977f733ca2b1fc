"""Lemma B.8: a 3-layer ReLU network that equals f near n separated points; Lemmas B.5 and B.6.

Around each point a bump in every coordinate, then a threshold on their sum: with
u = (x - x_0)/delta,

    bump(u) = (u + 2)_+ - (u + 1)_+ - (u - 1)_+ + (u - 2)_+   is 1 for |u| <= 1, 0 for |u| >= 2,

and nu(S) = ((S - d_f)/delta + 1)_+ - ((S - d_f)/delta)_+ is 1 where all d_f bumps are 1, and 0
where one of them is 0, if delta <= 1. Bumps of points 4 delta apart in a coordinate do not overlap.

The paper prints (u + 2)_+ - (u + 1)_+ - (2 - u)_+ + (1 - u)_+, which is odd in u: 0 at the point
itself. `printed=True` builds that one. The repaired bump has the same widths, 4 n d_f and 2n;
first-layer entries are at most max(1, B + 2 delta)/delta (the printed limit max(1, B)/delta is too
small for the printed biases as well).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.errors import require


@dataclass(frozen=True)
class BumpNetwork:
    """fmlp: W_1 [d_f + 1, d_2] and W_2 [d_2 + 1, d_3] carry their biases in the last row."""

    W_1: Float[np.ndarray, "p_1 d_2"]
    W_2: Float[np.ndarray, "d_2_1 d_3"]
    w: Float[np.ndarray, " d_3"]
    limits: dict[str, float]

    def __call__(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """The output for each row of x, in float64."""
        first = np.maximum(x @ self.W_1[:-1] + self.W_1[-1], 0.0)
        return np.maximum(first @ self.W_2[:-1] + self.W_2[-1], 0.0) @ self.w

    @property
    def widths(self) -> tuple[int, int]:
        """(d_2, d_3)."""
        return self.W_1.shape[1], self.W_2.shape[1]

    def norms(self) -> dict[str, float]:
        """The largest absolute entry of each matrix."""
        return {name: float(np.abs(getattr(self, name)).max()) for name in ("W_1", "W_2", "w")}

    def within_limits(self) -> bool:
        """Is every entry within the limits of the lemma?"""
        return all(size <= self.limits[name] * (1 + 1e-12) for name, size in self.norms().items())


def bump_network(
    points: Float[np.ndarray, "n p"],
    values: Float[np.ndarray, " n"],
    delta: float,
    *,
    printed: bool = False,
) -> BumpNetwork:
    """Lemma B.8: f(x_i + z) = values[i] whenever every |z_j| <= delta.

    Raises `InputError` unless the points are 4 delta apart and 0 < delta <= 1.
    """
    n, p = points.shape
    require(0 < delta <= 1, "delta", "a number in (0, 1]", delta)
    apart = _separation(points)
    require(apart >= 4 * delta * (1 - 1e-12), "points", f"points {4 * delta:g} apart", apart)
    steps = (2, 1, 2, 1) if printed else (2, 1, -1, -2)
    slopes = (1, 1, -1, -1) if printed else (1, 1, 1, 1)
    unit = np.tile(np.eye(p), n)  # column (i, j) reads coordinate j
    places = points.reshape(-1)
    columns = [
        np.vstack([slope * unit / delta, -slope * places / delta + step])
        for step, slope in zip(steps, slopes, strict=True)
    ]
    return BumpNetwork(
        np.hstack(columns),
        _indicators(n, p, delta),
        np.concatenate([values, -values]).astype(np.float64),
        _limits(points, values, delta, printed),
    )


def symmetric_network(
    heights: Float[np.ndarray, " levels"], values: Float[np.ndarray, " levels"], gamma: float
) -> BumpNetwork:
    """Lemma B.5: a network on a gamma-strictly monotone g, known to within gamma/4.

    delta = gamma/4 (the paper's gamma/8 does not reach an error of gamma/4); widths 4(s+1), 2(s+1).
    """
    B = float(np.abs(heights).max())
    made = bump_network(heights[:, None], values, gamma / 4)
    return _with_limits(made, _printed_norms(B, gamma, len(heights) - 1, values))


def injective_network(
    points: Float[np.ndarray, "patterns s"], values: Float[np.ndarray, " patterns"], gamma: float
) -> BumpNetwork:
    """Lemma B.6: a network on a gamma-injective g in R^s; widths 4 s 2^s and 2 2^s."""
    B = float(np.abs(points).max())
    made = bump_network(points, values, gamma / 4)
    return _with_limits(made, _printed_norms(B, gamma, points.shape[1], values))


def _printed_norms(B: float, gamma: float, s: int, values: np.ndarray) -> dict[str, float]:
    """B.5 and B.6: 8 max(1, B)/gamma, 8 s/gamma, max |f|; they hold with delta = gamma/4."""
    top = float(np.abs(values).max())
    return {"W_1": 8 * max(1.0, B) / gamma, "W_2": 8 * s / gamma, "w": top}


def _with_limits(made: BumpNetwork, limits: dict[str, float]) -> BumpNetwork:
    return BumpNetwork(made.W_1, made.W_2, made.w, limits)


def _indicators(n: int, p: int, delta: float) -> Float[np.ndarray, "d_2_1 d_3"]:
    """Second layer: the sum of the bumps of point i over delta, with the two biases of nu."""
    signs = np.array([1.0, -1.0, -1.0, 1.0]) / delta
    of_point = np.repeat(np.eye(n), p, axis=0)  # [n p, n]
    body = np.vstack([sign * of_point for sign in signs])
    biases = np.concatenate([np.full(n, 1 - p / delta), np.full(n, -p / delta)])
    return np.vstack([np.hstack([body, body]), biases])


def _limits(
    points: np.ndarray, values: np.ndarray, delta: float, printed: bool
) -> dict[str, float]:
    B, p = float(np.abs(points).max()), points.shape[1]
    reach = max(1.0, B) if printed else max(1.0, B + 2 * delta)
    return {"W_1": reach / delta, "W_2": p / delta, "w": float(np.abs(values).max())}


def _separation(points: Float[np.ndarray, "n p"]) -> float:
    """The smallest sup-distance of two points."""
    gaps = np.abs(points[:, None] - points[None]).max(axis=2)
    gaps[np.diag_indices(len(points))] = np.inf
    return float(gaps.min())
