"""All numbers of one head from its weights.

Rigorous, for every input: the norms, the score radius, the bound over all distances. A score is
[x^; 1] W_QK [y^; 1]^T with ||x^||, ||y^|| <= sqrt(d), so
    |score| <= ||W_QK||_2 sqrt(d + 1) sqrt(d)              (softmax does not see the key bias),
    |score| <= scale ||W_Q||_2 ||W_K||_2 (d + 1)           (rotary: at every distance),
    |score| <= scale k max over planes of max|g_Q| max|g_K| (every q and k normalised),
    |score| <= cap                                          (soft cap).
The third takes maxima over a rotary plane, not over a coordinate: turning by 90 degrees brings the
first coordinate of q onto the second of k, so max_i |g_Q,i g_K,i| would be too small.
"""

import math
from dataclasses import dataclass

import numpy as np

from capax.audit.heads.attend import plane_coordinates
from capax.audit.heads.distance import FURTHEST, distance_norms
from capax.audit.heads.folding import Factors, factors, softmax_keys
from capax.audit.heads.products import (
    Grams,
    frobenius,
    grams,
    largest,
    norm_2_1,
    norm_2_1_of_product,
    spectral,
)
from capax.audit.layouts.attention import Attention
from capax.errors import require


@dataclass(frozen=True)
class FactorSizes:
    """Spectral and (2,1) norms of the four factors, for covers that count them one by one."""

    Q_2: float
    Q_21: float
    K_2: float
    K_21: float
    V_2: float
    V_21: float
    O_2: float
    O_21: float


@dataclass(frozen=True)
class HeadSizes:
    """One head. W_QK carries the scale of the scores; at distance D = 0 where positions turn it.

    W_QK_F_max, D_max: the largest Frobenius norm over distances and where it is (rotary only).
    score_radius: None where no norm bounds what the head reads.
    """

    W_QK_F: float
    W_QK_2: float
    stable_rank: float
    W_VO_2: float
    W_VO_21: float
    score_radius: float | None
    W_QK_F_max: float | None
    D_max: int | None
    parts: FactorSizes


def head_sizes(attention: Attention, h: int, limit: int | None = None) -> HeadSizes:
    """Numbers of head h; `limit` is the longest context, for the search over distances."""
    part = factors(attention, h)
    keys = softmax_keys(part.K, attention)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = grams(part, keys)
        sound = all(np.isfinite(part).all() for part in (gram.Q, gram.K, gram.V, gram.O))
        sound = sound and math.isfinite(frobenius(gram.Q, gram.K) + frobenius(gram.V, gram.O))
    where = f"layer {attention.layer}, head {h}"
    require(sound, where, "norms within the range of float64", "weights too large for that")
    scale = abs(attention.scale)
    F, top = scale * frobenius(gram.Q, gram.K), scale * spectral(gram.Q, gram.K)
    sizes = _factor_sizes(part, keys, gram)
    far = _over_distances(attention, gram, limit)
    return HeadSizes(
        W_QK_F=F,
        W_QK_2=top,
        stable_rank=(F / top) ** 2 if top > 0 else 0.0,
        W_VO_2=spectral(gram.V, gram.O),
        W_VO_21=norm_2_1_of_product(gram.V, part.O),
        score_radius=_score_radius(attention, top, sizes, far),
        W_QK_F_max=None if far is None else far[0],
        D_max=None if far is None else far[1],
        parts=sizes,
    )


def _factor_sizes(part: Factors, keys: np.ndarray, gram: Grams) -> FactorSizes:
    return FactorSizes(
        Q_2=largest(gram.Q), Q_21=norm_2_1(part.Q),
        K_2=largest(gram.K), K_21=norm_2_1(keys),
        V_2=largest(gram.V), V_21=norm_2_1(part.V),
        O_2=largest(gram.O), O_21=norm_2_1(part.O),
    )  # fmt: skip


def _over_distances(
    attention: Attention, gram: Grams, limit: int | None
) -> tuple[float, int] | None:
    if attention.rotary is None:
        return None
    norms = distance_norms(gram.Q, gram.K, attention.rotary, min(limit or FURTHEST, FURTHEST))
    return abs(attention.scale) * float(norms.max()), int(norms.argmax())


def _score_radius(
    attention: Attention, top: float, sizes: FactorSizes, far: tuple[float, int] | None
) -> float | None:
    d, scale = attention.W_Q.shape[1], abs(attention.scale)
    if attention.q_gain is not None and attention.k_gain is not None:
        radius = scale * len(attention.q_gain) * _gain(attention)
    elif attention.norm is None:
        radius = math.inf
    elif attention.rotary is not None or far is not None:
        radius = scale * sizes.Q_2 * sizes.K_2 * (d + 1)
    else:
        radius = top * math.sqrt((d + 1) * d)
    radius = radius if attention.soft_cap is None else min(radius, attention.soft_cap)
    return radius if math.isfinite(radius) else None


def _gain(attention: Attention) -> float:
    """max over planes of max|g_Q| max|g_K|; coordinates that do not turn are their own planes."""
    g_Q, g_K = (np.abs(np.asarray(g, np.float64)) for g in (attention.q_gain, attention.k_gain))
    if attention.rotary is None:
        return float((g_Q * g_K).max())
    first, second = plane_coordinates(attention.rotary)
    planes = np.maximum(g_Q[first], g_Q[second]) * np.maximum(g_K[first], g_K[second])
    rest = np.arange(2 * len(first), len(g_Q))
    return float(max(planes.max(), (g_Q[rest] * g_K[rest]).max(initial=0.0)))
