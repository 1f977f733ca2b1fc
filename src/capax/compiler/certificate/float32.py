"""The margin that remains when the forward pass runs in float32, with a bound of its rounding.

The model of the machine: weights rounded to float32, every sum and product rounded with
u = 2^-24 in any order (no TF32), results below 2^-126 flushed to zero or kept, exp with a relative
error of at most 2^-20. Errors are pushed back into the tables, so that the float32 output is the
exact output for slightly different scores and values, and the machinery for proven ranges applies:

* a score of n products is off by gamma_n |x_CLS| |W_Q| |W_K|^T |x_t|, the subtraction of the
  largest score by u times their sizes, and exp multiplies the weight by e^{+-2^-20};
* the sum of T + 1 positive weights has a *relative* error of gamma_{T+1}: one factor sigma in
  [1/(1+gamma), 1/(1-gamma)] for the whole head output;
* numerators: tokens whose value is exactly zero add exactly nothing, so gamma_n with n the number
  of the others;
* hidden units: z off by gamma_{k+1} (|u| |W_1| + |b_1|), the last sum by gamma_n over the units
  that can be active; an inactive unit is exactly zero;
* underflow is absolute, and overflow must be excluded: `underflow`.

No bound is given (an error of infinity) where a number may leave float32's range or a relative
error may exceed 10 %.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.attention import ClsMLP, ClsScalar
from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import error_from_range
from capax.compiler.certificate.underflow import (
    ETA,
    hidden_underflow,
    output_underflow,
    scalar_underflow,
    score_underflow,
    terms_of_a_token,
    value_underflow,
    within_range,
)
from capax.compiler.proof.enclosed import exactly
from capax.compiler.proof.linear_fractional import HeadProblems, head_range
from capax.compiler.proof.output_range import (
    Hidden,
    hidden_units,
    scalar_direction,
    summed_ridges,
)
from capax.compiler.proof.tables import HeadTables, Model, score_sizes, value_sizes
from capax.rounding import UNIT32, UP, digits_down, digits_up, gamma, lowered, raised

EXP32 = 2.0**-20
MOST_RELATIVE = 0.1
"""Beyond this `underflow` does not hold."""


@dataclass(frozen=True)
class Float32Margin:
    """`margin` <= every float32 output's distance from the threshold (None: no decision).

    `error` >= |float32 output - target| on all inputs; `decided`: the margin is positive, so no
    decision changes in float32.
    """

    margin: float | None
    error: float
    decided: bool


def float32_margin(model: Model, tables: HeadTables, f: SparseFunction) -> Float32Margin:
    """Margin and worst-case error of the float32 forward pass over all 2^T inputs."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = _range(model, tables, f)
    if found is None:
        return Float32Margin(None, float("inf"), False)
    low, high = (np.where(np.isnan(e), s * np.inf, e) for e, s in zip(found, (-1, 1), strict=True))
    error, margin = error_from_range(f, low, high, signed=isinstance(model, ClsScalar))
    kept = None if margin is None else digits_down(margin)
    return Float32Margin(kept, digits_up(error), kept is not None and kept > 0)


def _range(
    model: Model, tables: HeadTables, f: SparseFunction
) -> tuple[np.ndarray, np.ndarray] | None:
    """(low, high) of the float32 output at each pattern; None without a bound."""
    longest = max(tables.T, 2 * terms_of_a_token(model) + model.W_Q.shape[1]) + 12
    if gamma(longest, UNIT32) > MOST_RELATIVE:
        return None
    shaken, sway = float32_tables(model, tables)
    u = np.maximum(shaken.values.size.max(axis=(0, 1)), shaken.cls_value.size) / (1 - sway)
    if not within_range(model, tables, u):
        return None
    if isinstance(model, ClsScalar):
        return _scalar_range(model, shaken, sway, u, f)
    return _mlp_range(model, shaken, sway, u, f)


def float32_tables(model: Model, tables: HeadTables) -> tuple[HeadTables, float]:
    """Tables whose errors cover the float32 pass, and the relative error of the normaliser."""
    width, r = terms_of_a_token(model), model.W_Q.shape[1]
    terms = gamma(2 * width + r + 12, UNIT32)
    lost, (score, cls_score) = score_underflow(model), score_sizes(model)
    scores = terms * score + lost.tokens, terms * cls_score + lost.cls
    exponent = exponent_error(max(float((score + scores[0]).max()), float(cls_score + scores[1])))
    size, cls_size = value_sizes(model)
    busy = int((size.max(axis=(1, 2)) > 0).sum()) + 1
    relative = gamma(width + 4, UNIT32) + gamma(busy + 6, UNIT32)
    flushed = value_underflow(model, tables)
    shaken = HeadTables(
        tables.logits.widened(scores[0] + exponent),
        tables.values.widened(relative * size + flushed.tokens),
        tables.cls_logit.widened(scores[1] + exponent),
        tables.cls_value.widened(relative * cls_size + flushed.cls),
    )
    return shaken, gamma(tables.T + 6, UNIT32)


def exponent_error(largest: float) -> float:
    """The error of a score in softmax, which subtracts the largest one, rounds, and takes exp.

    Both scores are at most `largest` in size: the difference is off by u 2 largest. A relative
    error e of exp moves the exponent by at most -ln(1 - e) <= e (1 + e).
    """
    return 2 * UNIT32 * largest + EXP32 * (1 + EXP32)


def _scalar_range(
    model: ClsScalar, tables: HeadTables, sway: float, u: np.ndarray, f: SparseFunction
) -> tuple[np.ndarray, np.ndarray]:
    c = scalar_direction(model)
    sizes = np.abs(np.asarray(model.W_C, np.float64)) @ np.abs(np.asarray(model.w, np.float64))
    k, q = np.shape(model.W_C)
    found = head_range(tables, f.support, c.widened(gamma(k + q + 6, UNIT32) * sizes[:, None]))
    low, high = _swayed(found.low[:, 0], found.high[:, 0], sway)
    error = scalar_underflow(model, u)
    return lowered(low - error), raised(high + error)


def _mlp_range(
    model: ClsMLP, tables: HeadTables, sway: float, u: np.ndarray, f: SparseFunction
) -> tuple[np.ndarray, np.ndarray]:
    hidden = hidden_units(model)
    rows = f.table.size
    if not hidden.ridges:
        b_2 = exactly(np.full(rows, hidden.b_2)).widened(UNIT32 * abs(hidden.b_2) + ETA)
        return b_2.low, b_2.high
    low, high = _direction_ends(HeadProblems.of(tables, f.support, hidden.columns), hidden, sway)
    bottom, top = summed_ridges(hidden, low, high)
    error = _mlp_error(model, u, hidden.group, high)
    return lowered(bottom - error), raised(top + error)


def _direction_ends(
    problems: HeadProblems, hidden: Hidden, sway: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of every direction; no low end if it stays left of every kink."""
    first = np.array([h.kinks[0] for h in hidden.ridges])
    level = np.where(first > 0, first * (1 - sway) / UP, first * (1 + sway) * UP)
    rows, columns = (index.reshape(-1) for index in np.indices(problems.shape))
    low, high = np.full(rows.shape, -np.inf), first[columns]
    rest = np.flatnonzero(~problems.at_most(rows, columns, level[columns]))
    bottom, top, _, _ = problems.range(rows[rest], columns[rest])
    low[rest], high[rest] = _swayed(bottom, top, sway)
    return low.reshape(problems.shape), high.reshape(problems.shape)


def _swayed(low: np.ndarray, high: np.ndarray, sway: float) -> tuple[np.ndarray, np.ndarray]:
    """[low, high] times any sigma within 1/(1 +- sway)."""
    below = np.where(low > 0, low / (1 + sway) / UP, low / (1 - sway) * UP)
    above = np.where(high > 0, high / (1 - sway) * UP, high / (1 + sway) / UP)
    return below, above


def _mlp_error(
    model: ClsMLP, u: np.ndarray, group: np.ndarray, high: np.ndarray
) -> Float[np.ndarray, " rows"]:
    """A bound on the rounding error inside the MLP at each pattern; |head output| <= u."""
    W_1, b_1, w_2 = (np.asarray(M, np.float64) for M in (model.W_1, model.b_1, model.w_2))
    reach = u @ np.abs(W_1) + np.abs(b_1)
    blur = gamma(len(u) + 5, UNIT32) * reach + hidden_underflow(u)
    b_2 = abs(float(model.b_2))
    errors = np.empty(len(high))
    for row in range(len(high)):
        z = np.minimum(high[row][group] + b_1, reach) + blur
        on = z > 0
        moved = float(np.abs(w_2[on]) @ blur[on])
        summed = float(np.abs(w_2[on]) @ z[on]) + b_2
        rounded = gamma(int(on.sum()) + 6, UNIT32) * (summed + moved)
        errors[row] = (moved + rounded + output_underflow(z[on])) * UP
    return errors
