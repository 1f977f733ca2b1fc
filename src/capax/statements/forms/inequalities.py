"""Both sides of the paper's inequalities on given arrays: Lemmas A.6, A.7, A.9, A.13 to A.16, B.7.

Each function evaluates the left and the right side as the paper prints them, with the paper's
constant as a default that a caller may change: a test then shows which constants are too small.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.attention.numpy_block import (
    Activation,
    BlockMatrices,
    attention,
    block,
    longest_row,
    project,
    softmax,
    spectral,
    stack,
)
from capax.errors import require

Vector = Float[np.ndarray, " n"]
Tokens = Float[np.ndarray, "T d"]
SLACK = 1e-12
"""Allowance for rounding on the left side: both sides are float64 numbers of size 1."""


@dataclass(frozen=True)
class Sides:
    """Left and right side of an inequality; `holds` up to the rounding of float64."""

    left: float
    right: float

    @property
    def holds(self) -> bool:
        """left <= right."""
        return self.left <= self.right + SLACK * max(1.0, abs(self.left))


def simplex_map(
    f: Callable[[Vector], Vector], c_f: float, theta_1: Vector, theta_2: Vector
) -> Sides:
    """Lemma A.6: ||f(a) - f(b)||_1 <= c_f ||a - b||_inf where ||J_f||_{1,1} <= c_f everywhere."""
    left = np.abs(f(theta_1) - f(theta_2)).sum()
    return Sides(float(left), c_f * float(np.abs(theta_1 - theta_2).max()))


def softmax_jacobian_size(theta: Vector) -> float:
    """||J||_{1,1} of softmax at theta: 2 sum_i p_i (1 - p_i), at most 2 (1 - 1/T) (uniform)."""
    p = softmax(theta)
    return float(np.abs(np.diag(p) - np.outer(p, p)).sum())


def softmax_distance(theta_1: Vector, theta_2: Vector, constant: float = 2.0) -> Sides:
    """Corollary A.7: ||softmax(a) - softmax(b)||_1 <= 2 ||a - b||_inf; 1 is enough (Lemma 4.3)."""
    return simplex_map(softmax, constant, theta_1, theta_2)


def projection_distance(u: Vector, v: Vector) -> Sides:
    """Lemma A.9: ||Pi(u) - Pi(v)|| <= ||u - v|| for the projection onto the unit ball."""
    left = np.linalg.norm(project(u) - project(v))
    return Sides(float(left), float(np.linalg.norm(u - v)))


def weight_distance(Z: Tokens, W: BlockMatrices, V: BlockMatrices, constant: float = 2.0) -> Sides:
    """Lemma A.13: rows of f(Z; W) - f(Z; V) for tokens of length at most 1.

    <= 2 ||W_V||_2 max_t ||(W_QK - V_QK) z_t|| + max_t ||(W_V - V_V)^T z_t||.
    """
    _check_tokens(Z)
    left = longest_row(attention(Z, W) - attention(Z, V))
    scores = longest_row(Z @ (W.W_QK - V.W_QK).T)
    return Sides(left, constant * spectral(W.W_V) * scores + longest_row(Z @ (W.W_V - V.W_V)))


def input_distance(Z: Tokens, Y: Tokens, W: BlockMatrices, constant: float = 4.0) -> Sides:
    """Lemma A.14: f(Z) - f(Y) has rows of at most ||W_V||_2 (1 + 4 ||W_QK||_2) max ||z_t - y_t||.

    2 in place of 4 is enough: the softmax constant is 1.
    """
    _check_tokens(Z)
    _check_tokens(Y)
    gain = spectral(W.W_V) * (1 + constant * spectral(W.W_QK))
    return Sides(longest_row(attention(Z, W) - attention(Y, W)), gain * longest_row(Z - Y))


def block_distance(
    Z: Tokens,
    Y: Tokens,
    W: BlockMatrices,
    V: BlockMatrices,
    sigma: Activation = np.tanh,
    L_sigma: float = 1.0,
) -> Sides:
    """Lemma A.15: the change of one block is at most the sum of four terms (Z to Y, W to V)."""
    _check_tokens(Z)
    _check_tokens(Y)
    gain = L_sigma * max(spectral(W.W_C), spectral(V.W_C))
    B_V = max(spectral(W.W_V), spectral(V.W_V))
    B_QK = max(spectral(W.W_QK), spectral(V.W_QK))
    right = (
        longest_row(sigma(project(attention(Y, V))) @ (W.W_C - V.W_C))
        + gain * B_V * (1 + 4 * B_QK) * longest_row(Z - Y)
        + 2 * gain * B_V * longest_row(Y @ (W.W_QK - V.W_QK).T)
        + gain * longest_row(Y @ (W.W_V - V.W_V))
    )
    return Sides(longest_row(block(Z, W, sigma) - block(Y, V, sigma)), right)


def scalar_distance(
    X: Tokens,
    W: tuple[BlockMatrices, ...],
    V: tuple[BlockMatrices, ...],
    w: Vector,
    v: Vector,
    sigma: Activation = np.tanh,
) -> Sides:
    """Lemma A.16: |w.g - v.h| <= ||w|| ||g - h|| + |(w - v).h| at the last row, [CLS]."""
    g, h = stack(X, W, sigma)[-1], stack(X, V, sigma)[-1]
    right = np.linalg.norm(w) * np.linalg.norm(g - h) + abs((w - v) @ h)
    return Sides(abs(float(w @ g - v @ h)), float(right))


def truncation_distance(z: Vector, s: int, constant: float = 2.0) -> Sides:
    """Lemma B.7: ||softmax(z') - softmax(z)||_1 <= 2 (T - s)/(s e^R).

    The first s scores are at least R = their minimum, the others at most 0; z' drops the others.
    """
    R, rest = float(z[:s].min()), z[s:]
    require(
        (rest <= 0).all(),
        "z",
        "scores of at most 0 after the first s",
        float(rest.max(initial=0.0)),
    )
    cut = np.concatenate([z[:s], np.full(len(rest), -math.inf)])
    left = np.abs(softmax(cut) - softmax(z)).sum()
    return Sides(float(left), constant * len(rest) / s * math.exp(-R))


def _check_tokens(Z: Tokens) -> None:
    length = longest_row(Z)
    require(length <= 1 + 1e-9, "tokens", "rows of length at most 1", length)
