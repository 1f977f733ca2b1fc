"""A number that no score of a head exceeds, in absolute value, on any input.

The score is the one that the model computes before masks and softmax: with the key bias (which
softmax does not see), with the terms for the distance, with the factor of rotary scaling, at every
distance and in every context. The head reads x^ (queries) and y^ (keys), the inputs of the folded
matrices, and the norm before the head gives ||x^||, ||y^|| <= r = sqrt(d).

With W_Q, b_Q and W_K, b_K (folded, b the last row), s = |scale| and operator norms ||.||:

* no rotation: |score| <= s [r^2 ||W_Q W_K^T|| + r ||W_Q b_K|| + r ||W_K b_Q|| + |b_Q . b_K|];
* rotation by any angle, q and k multiplied by `factor` first:
  |score| <= s (r ||W_Q|| + ||b_Q||)(r ||W_K|| + ||b_K||);
* q and k normalised: ||q^||, ||k^|| <= sqrt(k), then gains g, then the rotation, so that
  |score| <= s k max over planes of max|g_Q| max|g_K|. Maxima over a plane, not over a coordinate:
  a rotation by 90 degrees maps the first coordinate of q to the second of k;
* vectors e_D for the distance add s max_D (r ||W_Q e_D|| + |b_Q . e_D|), and the same with W_K if
  they are added to both q and k; a learned bias per distance adds its largest absolute value;
* a soft cap c: |score| <= c.

All is computed in float64 and rounded up: sums of n terms are off by gamma_n times the sum of the
absolute values, and with Gram matrices A, B the largest eigenvalue of A B is off by at most
gamma_{16 (d + k)} tr(A) tr(B). The rounding of the model's own float32 or bfloat16 is not
included.
"""

import math

import numpy as np
from jaxtyping import Float

from capax.audit.heads.folding import Factors
from capax.audit.heads.gram_norms import largest, spectral
from capax.audit.layouts.attention_layer import Attention
from capax.rounding import SLACK, gamma

Rows = Float[np.ndarray, "rows k"]


def score_radius(attention: Attention, h: int, part: Factors) -> float | None:
    """The radius of head h; None if no norm bounds its input, or if a factor is unknown."""
    radius = _uncapped(attention, h, part)
    cap = attention.soft_cap
    if cap is not None:
        radius = cap if radius is None else min(radius, cap)
    return radius


def _uncapped(attention: Attention, h: int, part: Factors) -> float | None:
    rotary, s = attention.rotary, abs(attention.scale)
    if rotary is not None and rotary.factor is None:
        return None
    if attention.q_gain is not None:
        return SLACK * s * len(attention.q_gain) * _largest_gain(attention)
    if attention.norm is None:
        return None
    terms = _turned(part) if rotary is not None else _plain(part)
    vectors = attention.distance_vectors
    if vectors is not None:
        E = np.asarray(vectors.vectors, np.float64)
        terms += _with_vectors(part.Q, E) + (_with_vectors(part.K, E) if vectors.both else 0.0)
    radius = s * terms
    if attention.distance_bias is not None:
        radius += float(np.abs(attention.distance_bias[h]).max())
    return SLACK * radius if math.isfinite(radius) else None


def _plain(part: Factors) -> float:
    W_Q, b_Q, W_K, b_K = part.Q[:-1], part.Q[-1], part.K[:-1], part.K[-1]
    r = math.sqrt(len(W_Q))
    A, B = W_Q.T @ W_Q, W_K.T @ W_K
    slack = gamma(16 * sum(W_Q.shape))
    product = math.hypot(spectral(A, B), math.sqrt(slack * np.trace(A) * np.trace(B)))
    cross = np.linalg.norm(W_Q @ b_K) + np.linalg.norm(W_K @ b_Q)
    small = slack * (_size(part.Q) * _size(part.K))
    return float(r * r * product + r * cross + abs(b_Q @ b_K) + r * r * small)


def _turned(part: Factors) -> float:
    return _longest(part.Q) * _longest(part.K)


def _longest(rows: Rows) -> float:
    """max ||[x^; 1] [W; b]|| over ||x^|| <= sqrt(d), at most sqrt(d) ||W|| + ||b||."""
    W, b = rows[:-1], rows[-1]
    slack = gamma(16 * sum(W.shape))
    norm = math.hypot(largest(W.T @ W), math.sqrt(slack) * _size(W))
    return math.sqrt(len(W)) * norm + float(np.linalg.norm(b))


def _with_vectors(rows: Rows, E: Float[np.ndarray, "n k"]) -> float:
    """max over e in E of sqrt(d) ||W e|| + |b . e|."""
    W, b = rows[:-1], rows[-1]
    values = math.sqrt(len(W)) * np.linalg.norm(W @ E.T, axis=0) + np.abs(E @ b)
    slack = gamma(16 * sum(W.shape)) * math.sqrt(len(W)) * _size(rows)
    return float((values + slack * np.linalg.norm(E, axis=1)).max())


def _size(rows: Rows) -> float:
    return float(np.linalg.norm(rows))


def _largest_gain(attention: Attention) -> float:
    """max over planes of max|g_Q| max|g_K|; each unrotated coordinate is its own plane."""
    g_Q, g_K = (np.abs(np.asarray(g, np.float64)) for g in (attention.q_gain, attention.k_gain))
    rotary = attention.rotary
    if rotary is None:
        return float((g_Q * g_K).max())
    g_Q, g_K = (g * np.abs(rotary.lengths(len(g))) for g in (g_Q, g_K))
    first, second = rotary.coordinates()
    planes = np.maximum(g_Q[first], g_Q[second]) * np.maximum(g_K[first], g_K[second])
    rest = slice(2 * rotary.planes, None)
    return float(max(planes.max(), (g_Q[rest] * g_K[rest]).max(initial=0.0)))
