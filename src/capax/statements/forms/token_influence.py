"""Hahn's limit (Section 5, remarks): how far one token can move the output of a head.

Let all scores lie in an interval of length 2S, and all values within B of one centre. A token has
weight p = w/(w + Z). Shifted to [-S, S], w <= e^S and Z >= T e^-S for the T other tokens, [CLS]
among them. Around the centre, the others have a mean u_0 with |u_0| <= B, and the output is
u_0 + p (v - u_0). A change of the token moves it by

    |p v - p' v' - (p - p') u_0| <= B (p + p' + |p - p'|) = 2 B max(p, p') <= 2 B/(1 + T e^{-2S}).

It is attained: the token at score S with value +B or -B, all others at -S. At constant norms it
falls as 1/T; scores of size S = (1/2) ln T keep it at B. Conversely, a function that depends on one
token and is decided with margin gamma needs 2 gamma <= 2 B/(1 + T e^{-2S}), hence

    S >= (1/2) ln(T gamma/(B - gamma)):      norms of order log T are necessary, and they suffice.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from capax.attention import ClsScalar
from capax.attention.numpy_block import softmax
from capax.compiler.compiling import compile as compile_function
from capax.compiler.proof.tables import HeadTables, head_tables
from capax.errors import InputError, require

MAX_STATES = 1 << 24
"""Most combinations of counts of ones by kind of token: an array of them takes 128 MiB."""


def influence_bound(T: int, S: float, B: float = 1.0) -> float:
    """The largest change of a head's output by one token among T + 1, scores in [-S, S]."""
    require(T >= 1, "T", "at least one other token", T)
    require(S >= 0 and math.isfinite(S), "S", "a finite number >= 0", S)
    return 2 * B / (1 + T * math.exp(-2 * S))


def influence_attained(T: int, S: float, B: float = 1.0) -> float:
    """The change of a head that attains the bound, by its forward pass."""
    weights = softmax(np.array([S] + [-S] * T))
    outputs = [weights @ np.array([value] + [0.0] * T) for value in (B, -B)]
    return float(abs(outputs[0] - outputs[1]))


def smallest_score(T: int, margin: float, B: float = 1.0) -> float:
    """The smallest S at which one token can decide with this margin: (1/2) ln(T gamma/(B - gamma)).

    0 if the token has enough weight at equal scores.
    """
    require(T >= 1, "T", "at least one other token", T)
    require(0 < margin < B, "margin", f"a number in (0, {B:g})", margin)
    return max(0.0, 0.5 * math.log(T * margin / (B - margin)))


@dataclass(frozen=True)
class HeadInfluence:
    """The largest change of the output of a head on bits by one token, and its bound.

    `measured`: the maximum over all inputs and all tokens; `S`: half the range of the scores; `B`:
    half the range of the values; `bound`: 2B/(1 + T e^{-2S}); `smallest_S`: the smallest S at which
    a head with values in the same range can have the measured influence.
    """

    measured: float
    S: float
    B: float
    bound: float
    smallest_S: float


def head_influence(tables: HeadTables, read: Float[np.ndarray, " k"]) -> HeadInfluence:
    """The largest influence of one token on a head that is read out linearly, over all 2^T inputs.

    Tokens with the same scores and values are of one kind, and the output depends only on the
    number of ones in each kind. So all inputs form a grid of counts, and every point of the grid is
    tried. Raises `InputError` if the grid is too large.
    """
    require(tables.alphabet == 2, "alphabet", "2 (bits)", tables.alphabet)
    logits, values = tables.logits.mid, tables.values.mid @ read  # [T, 2] each
    cls_logit, cls_value = float(tables.cls_logit.mid), float(tables.cls_value.mid @ read)
    mass, cls_mass = tables.masses()
    kinds, counts = np.unique(
        np.concatenate([mass, mass * values], axis=1), axis=0, return_counts=True
    )
    largest = max(
        _influence_of_kind(kinds, counts, changed, cls_mass, cls_mass * cls_value)
        for changed in range(len(kinds))
    )
    S, B = (
        0.5 * float(max(own.max(), cls) - min(own.min(), cls))
        for own, cls in ((logits, cls_logit), (values, cls_value))
    )
    needed = smallest_score(tables.T, largest / 2, B) if largest > 0 else 0.0
    return HeadInfluence(largest, S, B, influence_bound(tables.T, S, B), needed)


def _influence_of_kind(
    kinds: np.ndarray, counts: np.ndarray, changed: int, Z: float, N: float
) -> float:
    """The largest change by one token of a kind: Z and N over all counts of ones of the others."""
    others = counts.copy()
    others[changed] -= 1
    states = math.prod(int(n) + 1 for n in others)
    if states > MAX_STATES:
        raise InputError(
            f"head: too many kinds of tokens: {states} combinations of counts, at most {MAX_STATES}"
        )
    for kind, n in zip(kinds, others, strict=True):
        ones = np.arange(n + 1.0)
        step = [kind[first] * (n - ones) + kind[first + 1] * ones for first in (0, 2)]
        Z, N = (np.add.outer(old, new).ravel() for old, new in zip((Z, N), step, strict=True))
    one = kinds[changed]
    outputs = [(N + one[2 + bit]) / (Z + one[bit]) for bit in (0, 1)]
    return float(np.abs(outputs[1] - outputs[0]).max())


@dataclass(frozen=True)
class InfluenceRow:
    """One length T: the limit at constant scores, at scores of (1/2) ln T, and a compiled head.

    `constant_bound`, `constant_attained`: scores in [-S, S]; `log_bound`, `log_attained`: the same
    at S = (1/2) ln T; `smallest_score`: the S that a margin needs; `compiled`: the function's head,
    with `norm` = its ||W_QK||_F; `compiled_at_first_norm`: the same head with W_QK scaled to the
    norm that it has at the first length.
    """

    T: int
    S: float
    constant_bound: float
    constant_attained: float
    log_bound: float
    log_attained: float
    smallest_score: float
    norm: float
    compiled: HeadInfluence
    compiled_at_first_norm: HeadInfluence

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def influence_against_length(
    lengths: Sequence[int], *, S: float = 1.0, margin: float = 0.25, function: str = "x0 & x1 & x2"
) -> list[InfluenceRow]:
    """The limit and measured influences for each T; values are within B = 1 of their centre."""
    rows: list[InfluenceRow] = []
    first: float | None = None
    for T in lengths:
        tables, read, norm = _compiled_head(function, T)
        first = norm if first is None else first
        log_S = 0.5 * math.log(T)
        limits = (influence_bound(T, S), influence_attained(T, S))
        log_limits = (influence_bound(T, log_S), influence_attained(T, log_S))
        kept = head_influence(tables, read)
        falling = head_influence(_scaled(tables, first / norm), read)
        needed = smallest_score(T, margin)
        rows.append(InfluenceRow(T, S, *limits, *log_limits, needed, norm, kept, falling))
    return rows


def _compiled_head(function: str, T: int) -> tuple[HeadTables, np.ndarray, float]:
    """The compiled head, the vector that reads it, and ||W_QK||_F."""
    made = compile_function(function, T)
    if not isinstance(made.model, ClsScalar):
        raise InputError(
            "function: not a threshold function, which has one head and a linear read-out"
        )
    read = np.asarray(made.model.W_C, np.float64) @ np.asarray(made.model.w, np.float64)
    return head_tables(made.model), read, made.certificate.norms["W_QK"]["frobenius"]


def _scaled(tables: HeadTables, factor: float) -> HeadTables:
    """The head with W_QK times a number."""
    logits, cls = (
        replace(part, mid=factor * part.mid, rad=factor * part.rad)
        for part in (tables.logits, tables.cls_logit)
    )
    return replace(tables, logits=logits, cls_logit=cls)
