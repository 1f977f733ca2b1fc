"""The network's output on given inputs, enclosed: for running all inputs, and for witnesses.

With weights known as w_t = low_t (1 + e_t), 0 <= e_t <= e, the head is off the mean u^ taken with
low_t by sum e_t low_t (v_t - u^) / sum w_t, at most e times the spread of the values. Weights that
underflow (below e^-700 of the largest) move it by at most T e^-700 times the spread. The sums of
n terms add 2 gamma_n sum w |v| / sum w.
"""

import math

import numpy as np
from jaxtyping import Float, Integer

from capax.attention import ClsScalar
from capax.compiler.proof.enclosed import Enclosed, exactly, exp_bounds, joined
from capax.compiler.proof.output_range import hidden_units, scalar_direction, summed_ridges
from capax.compiler.proof.tables import HeadTables, Model
from capax.rounding import TINY, UP, gamma

BLOCK = 1 << 22
Numbers = Float[np.ndarray, " n"]


def output_bounds(
    model: Model, tables: HeadTables, bits: Integer[np.ndarray, "n T"]
) -> tuple[Numbers, Numbers]:
    """(lower, upper) bound of the output on each row of bits."""
    size = max(1, BLOCK // ((tables.T + 1) * max(tables.k, 1)))
    with np.errstate(over="ignore", invalid="ignore"):  # NaN bounds nothing
        parts = [_bounds(model, tables, bits[i : i + size]) for i in range(0, len(bits), size)]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _bounds(
    model: Model, tables: HeadTables, bits: Integer[np.ndarray, "n T"]
) -> tuple[Numbers, Numbers]:
    u = head_values(tables, bits)
    if isinstance(model, ClsScalar):
        output = (u @ scalar_direction(model))[:, 0]
        return output.low, output.high
    hidden = hidden_units(model)
    l = u @ exactly(hidden.columns)
    return summed_ridges(hidden, l.low, l.high)


def head_values(tables: HeadTables, bits: Integer[np.ndarray, "n T"]) -> Enclosed:
    """u [n, k] on each row of bits, each row shifted by its own largest score."""
    at, n = np.arange(tables.T), len(bits)
    scores = joined(tables.logits[at, bits], tables.cls_logit.spread((n, 1)), axis=1)
    low, high = exp_bounds(scores.mid - scores.mid.max(axis=1, keepdims=True), scores.rad)
    alive = low > 0
    ratio = np.divide(high, low, out=np.ones_like(high), where=alive)
    wobble = (ratio.max(axis=1) - 1) * UP + (tables.T + 1) * math.exp(-690.0)
    cls = np.broadcast_to(tables.cls_value.mid, (n, 1, tables.k))
    values = np.concatenate([tables.values.mid[at, bits], cls], axis=1)
    mass = low.sum(axis=1)[:, None]
    middle = (low[:, :, None] * values).sum(axis=1) / mass
    size = (low[:, :, None] * np.abs(values)).sum(axis=1) / mass
    spread = values.max(axis=1) - values.min(axis=1)
    rad = wobble[:, None] * spread + 2 * gamma(tables.T + 8) * size + _value_error(tables)
    return Enclosed(middle, rad * UP + (tables.T + 8) * TINY)


def _value_error(tables: HeadTables) -> Float[np.ndarray, " k"]:
    """The largest error of any value, by column: a mean of values is off by no more."""
    return np.maximum(tables.values.rad.max(axis=(0, 1)), tables.cls_value.rad)
