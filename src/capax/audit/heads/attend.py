"""Attention weights of one layer from its folded factors: a plain version, for users and tests.

X^ holds the normalised inputs of the layer, without gain and offset.
"""

import numpy as np
from jaxtyping import Bool, Float

from capax.audit.heads.folding import factors
from capax.audit.layouts.attention_layer import Attention, DistanceVectors, Rotary
from capax.errors import require

Matrix = Float[np.ndarray, "_ _"]


def scores(
    attention: Attention, h: int, X: Matrix, Y: Matrix | None = None, *, eps: float = 0.0
) -> Matrix:
    """Scores of head h before masking: queries from X, keys from Y (default: X).

    eps: the constant inside the norms of q and k, for families that have them.
    """
    part = factors(attention, h)
    Q, K = _with_one(X) @ part.Q, _with_one(X if Y is None else Y) @ part.K
    Q, K = _normalised(Q, attention.q_gain, eps), _normalised(K, attention.k_gain, eps)
    if attention.rotary is not None:
        Q, K = turned(Q, attention.rotary), turned(K, attention.rotary)
    S = attention.scale * (Q @ K.T + _distance_terms(attention.distance_vectors, Q, K))
    cap = attention.soft_cap
    return S if cap is None else cap * np.tanh(S / cap)


def attention_weights(
    attention: Attention, h: int, X: Matrix, Y: Matrix | None = None, *, eps: float = 0.0,
    bias: Matrix | None = None,
) -> Matrix:  # fmt: skip
    """Softmax of the scores plus `bias`, with the layer's causal and window masks."""
    S = scores(attention, h, X, Y, eps=eps)
    S = S if bias is None else S + bias
    S = np.where(_visible(attention, *S.shape), S, -np.inf)
    E = np.exp(S - S.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


def head_output(attention: Attention, h: int, A: Matrix, Y: Matrix) -> Matrix:
    """A Y W_VO: the output of head h for attention weights A, without the layer's b_O."""
    part = factors(attention, h)
    return A @ (_with_one(Y) @ part.V) @ part.O


def turned(Q: Matrix, rotary: Rotary) -> Matrix:
    """Row t rotated by t theta_i in plane i, in a context of len(Q) tokens."""
    theta = rotary.frequencies(len(Q))
    known = theta is not None and rotary.factor is not None
    require(known, "rotary positions", "known frequencies for a context of this length", len(Q))
    first, second = rotary.coordinates()
    angle = np.arange(len(Q))[:, None] * np.asarray(theta)[None, :]
    cos, sin = np.cos(angle), np.sin(angle)
    out = Q.copy()
    out[:, first] = Q[:, first] * cos - Q[:, second] * sin
    out[:, second] = Q[:, second] * cos + Q[:, first] * sin
    return out * rotary.lengths(Q.shape[1])


def _distance_terms(distance: DistanceVectors | None, Q: Matrix, K: Matrix) -> Matrix | float:
    if distance is None:
        return 0.0
    n = (len(distance.vectors) + 1) // 2
    row = np.arange(len(Q))[:, None] - np.arange(len(K))[None, :] + n - 1
    E = np.asarray(distance.vectors, np.float64)[row]
    terms = np.einsum("ik,ijk->ij", Q, E)
    return terms + np.einsum("jk,ijk->ij", K, E) if distance.both else terms


def _visible(attention: Attention, rows: int, columns: int) -> Bool[np.ndarray, "rows cols"]:
    i, j = np.ogrid[:rows, :columns]
    seen = np.ones((rows, columns), bool)
    if attention.causal:
        seen &= j <= i
    if attention.window is not None:
        seen &= i - j < attention.window
    return seen


def _with_one(X: Matrix) -> Matrix:
    return np.hstack([X, np.ones((len(X), 1))])


def _normalised(Q: Matrix, gain: np.ndarray | None, eps: float) -> Matrix:
    if gain is None:
        return Q
    return gain * Q / np.sqrt((Q * Q).mean(axis=1, keepdims=True) + eps)
