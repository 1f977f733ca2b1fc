"""The factor r of LayerNorm over a cell: a linear function of the residual, and its error.

c is the centred residual, d its length, c0 a point near the middle of the cell, delta = c - c0,

    V = |c|^2/d,   V0 = |c0|^2/d,   r = phi(V),   phi(V) = (V + eps)^(-1/2).

phi is decreasing and convex. Taylor's formula at V0, for some xi between V0 and V:

    phi(V) = phi(V0) + phi'(V0) (V - V0) + (1/2) phi''(xi) (V - V0)^2,
    phi'(V0) = -(1/2) phi(V0)^3,        phi''(xi) = (3/4) (xi + eps)^(-5/2).

Since V - V0 = (2 c0 . delta + |delta|^2)/d, the part that is linear in delta is

    r = r0 + r1 (c0 . delta) + e,   r0 = phi(V0),   r1 = 2 phi'(V0)/d,
    e = phi'(V0) |delta|^2/d + (1/2) phi''(xi) (V - V0)^2.

The first term of e is at most 0, the second at least 0. With `spread` >= |delta|^2, `change` >=
|V - V0| and `least` <= V, V0 over the cell:

    phi'(V0) spread/d  <=  e  <=  (3/8) (least + eps)^(-5/2) change^2.

A second upper end needs no Taylor formula: e = r - r0 - r1 (c0 . delta) with r <= (least +
eps)^(-1/2).

Three numbers about the cell remain, and each has its function below. They come from ranges of
linear functions of c (`LinearRanges`), along c0 and along the columns of a basis Q that is
orthonormal up to eta = 1e-9, that is |Q^T Q - I| <= eta in the spectral norm; Q Q^T has the same
eigenvalues as Q^T Q, so

    (1 - eta) |x|^2 <= |Q^T x|^2 <= (1 + eta) |x|^2   for every x.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from capax.compiler.proof.enclosed import Enclosed, between, exactly, inverse_root_between
from capax.decompile.proof.layer_tables import EPSILON, one_over
from capax.rounding import TINY, UP, gamma

Pair = tuple[np.ndarray, np.ndarray]
LinearRanges = Callable[[Enclosed], Pair]
"""(low, high) [R, g] of q . c over each of the R cells, for directions q [R or 1, d, g]."""
ETA = 1e-9


@dataclass(frozen=True)
class Box:
    """A cell seen along the columns of Q: where Q^T c lies, and how far it is from Q^T c0."""

    basis: np.ndarray  # Q, [R, d, d]
    low: np.ndarray  # [R, d]: low <= Q^T c <= high
    high: np.ndarray
    reach: np.ndarray  # [R, d]: |Q^T delta| <= reach

    @staticmethod
    def of(basis: np.ndarray, c0: np.ndarray, ranges: LinearRanges) -> "Box":
        low, high = ranges(exactly(basis))
        at_c0 = (exactly(c0[:, None, :]) @ exactly(basis))[:, 0]
        return Box(basis, low, high, (between(low, high) - at_c0).size)

    @property
    def spread(self) -> np.ndarray:
        """At least |delta|^2 [R], since |delta|^2 <= |Q^T delta|^2 / (1 - eta)."""
        return (self.reach**2).sum(1) * UP / (1 - ETA) + TINY

    @property
    def least_square(self) -> np.ndarray:
        """At most |c|^2 [R], since |c|^2 >= |Q^T c|^2 / (1 + eta)."""
        holds_zero = (self.low <= 0) & (self.high >= 0)
        nearest = np.where(holds_zero, 0.0, np.minimum(np.abs(self.low), np.abs(self.high)))
        return (nearest**2).sum(1) / (1 + ETA) / UP

    def aside(self, p: Enclosed) -> np.ndarray:
        """At least |p . delta| [R, g] for p [R or 1, d, g].

        p . delta = (Q^T p) . (Q^T delta) + p . (I - Q Q^T) delta; the last is <= eta |p| |delta|.
        """
        turned = (exactly(np.swapaxes(self.basis, 1, 2)) @ p).size  # [R, d, g]
        inside = (self.reach[:, None, :] @ turned)[:, 0] * (1 + gamma(self.reach.shape[1] + 2))
        length = np.sqrt(self.spread)[:, None]
        return (inside + ETA * length * np.sqrt((p.size**2).sum(1))) * UP + TINY


@dataclass(frozen=True)
class NormFactor:
    """r = r0 + r1 (c0 . delta) + e over each cell; `along` = the range of c0 . delta. All [R]."""

    r0: Enclosed
    r1: Enclosed
    e: Enclosed
    along: Enclosed
    box: Box
    most: np.ndarray
    """At least r."""


def norm_factor(
    c0: np.ndarray, basis: np.ndarray, ranges: LinearRanges, epsilon: Enclosed = EPSILON
) -> NormFactor:
    """The factor around c0 [R, d], from ranges of linear functions; see the derivation above."""
    share = one_over(c0.shape[1])
    box = Box.of(basis, c0, ranges)
    square = (exactly(c0) * exactly(c0)).sum(1)  # |c0|^2
    along = _along(c0, square, ranges)
    V0 = square * share
    r0 = (V0 + epsilon).inverse_root()
    slope = exactly(np.array(-0.5)) * r0 * r0 * r0  # phi'(V0)
    r1 = exactly(np.array(2.0)) * slope * share
    change = _change(along, box.spread, share)
    least = np.minimum(_least_variance(along, square, box, share), V0.low)
    highest = inverse_root_between(*(np.maximum(least, 0.0) + epsilon.low,) * 2)  # r <= this
    taylor = _three_eighths_power_five(highest) * change.size**2 * UP + TINY
    other = (highest - r0 - r1 * along).high
    lower = (slope * exactly(box.spread) * share).low
    e = between(lower, np.minimum(taylor, other))
    return NormFactor(r0, r1, e, along, box, highest.high)


def _along(c0: np.ndarray, square: Enclosed, ranges: LinearRanges) -> Enclosed:
    """c0 . delta = c0 . c - |c0|^2."""
    low, high = ranges(exactly(c0[:, :, None]))
    return between(low[:, 0], high[:, 0]) - square


def _change(along: Enclosed, spread: np.ndarray, share: Enclosed) -> Enclosed:
    """V - V0 = (2 c0 . delta + |delta|^2)/d with |delta|^2 in [0, spread]."""
    squared = between(np.zeros_like(spread), spread)
    return (exactly(np.array(2.0)) * along + squared) * share


def _least_variance(along: Enclosed, square: Enclosed, box: Box, share: Enclosed) -> np.ndarray:
    """At most V over the cell: the better of two lower ends of |c|^2, divided by d.

    Cauchy and Schwarz: |c|^2 >= (c0 . c)^2 / |c0|^2, where c0 . c = c0 . delta + |c0|^2.
    """
    projected = np.maximum((along + square).low, 0.0)
    shadow = projected**2 / square.high / UP
    return np.maximum(shadow, box.least_square) * share.low / UP


def _three_eighths_power_five(root: Enclosed) -> np.ndarray:
    """At least (3/8) root^5."""
    return (exactly(np.array(0.375)) * root * root * root * root * root).high


def main_directions(moved: np.ndarray) -> np.ndarray:
    """A basis Q [R, d, d] along which the sum of the moves [R, F, d] varies most.

    Any basis is sound as long as |Q^T Q - I| <= eta, and this one gives a box that is little larger
    than the set. Where it cannot be found (moves that overflow) the coordinate axes serve.
    """
    total = moved.sum(1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = np.swapaxes(moved, 1, 2) @ moved + np.swapaxes(total, 1, 2) @ total
    eye = np.eye(moved.shape[2])
    fits = np.isfinite(gram).all((1, 2))
    try:
        basis = np.linalg.eigh(np.where(fits[:, None, None], gram, eye))[1]
    except np.linalg.LinAlgError:  # no convergence
        return np.broadcast_to(eye, gram.shape)
    return np.where(_nearly_orthonormal(basis)[:, None, None], basis, eye)


def _nearly_orthonormal(basis: np.ndarray) -> np.ndarray:
    """|Q^T Q - I| <= eta, proved: the largest absolute row sum is at least the spectral norm."""
    product = exactly(np.swapaxes(basis, 1, 2)) @ exactly(basis)
    wrong = (product - exactly(np.eye(basis.shape[2]))).size
    return wrong.sum(2).max(1) * UP <= ETA
