"""All numbers of one head from its weights; `score_radius` has the proof of the radius."""

import math
from dataclasses import dataclass

import numpy as np

from capax.audit.heads.distance import largest_over_distances
from capax.audit.heads.folding import Factors, factors, softmax_keys
from capax.audit.heads.gram_norms import (
    Grams,
    frobenius,
    grams,
    largest,
    norm_2_1,
    norm_2_1_of_product,
    spectral,
)
from capax.audit.heads.score_radius import score_radius
from capax.audit.layouts.attention_layer import Attention
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
    """One head. W_QK includes the scale of the scores; with rotary positions, at distance D = 0.

    W_QK_F_max, D_max: the largest Frobenius norm over all distances that the context and the window
    allow, and its distance; None without rotary positions, or if it is unknown.
    score_radius: no score is larger; None if no norm bounds the input of the head.
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
    part = part if attention.rotary is None else part.stretched(attention.rotary)
    keys = softmax_keys(part.K, attention)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = grams(part, keys)
        sound = all(np.isfinite(part).all() for part in (gram.Q, gram.K, gram.V, gram.O))
        sound = sound and math.isfinite(frobenius(gram.Q, gram.K) + frobenius(gram.V, gram.O))
    where = f"layer {attention.layer}, head {h}"
    require(sound, where, "norms within the range of float64", "larger weights")
    scale = abs(attention.scale)
    F, top = scale * frobenius(gram.Q, gram.K), scale * spectral(gram.Q, gram.K)
    sizes = _factor_sizes(part, keys, gram)
    rotary, far = attention.rotary, None
    if rotary is not None:
        far = largest_over_distances(gram.Q, gram.K, rotary, limit, attention.window)
    return HeadSizes(
        W_QK_F=F,
        W_QK_2=top,
        stable_rank=(F / top) ** 2 if top > 0 else 0.0,
        W_VO_2=spectral(gram.V, gram.O),
        W_VO_21=norm_2_1_of_product(gram.V, part.O),
        score_radius=score_radius(attention, h, part),
        W_QK_F_max=None if far is None else scale * far[0],
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
