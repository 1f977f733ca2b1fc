"""The distance of a head from the mean of its members, over all inputs, from its tables alone.

*Members by position.* The scores do not depend on the symbols, so Z is one number and the output is
a sum over tokens. With n members I and M symbols,

    output - mean = [ sum_t (n w_t v_t(b_t) - 1[t in I] b_t Z) + n w_CLS v_CLS ] / (n Z),

whose extremes are found token by token: the answer is exact but for rounding.

*Members by symbol.* The scores do not depend on the positions. With mean tau of the n >= 1 members,

    output - tau = [ sum_t w(b_t) (v(b_t) - tau) + w_CLS (v_CLS - tau) ] / Z.

Members of equal weight add sum (b_t - tau) = 0, up to rounding; each of the others is at most R
from tau, and their share of Z is largest when one member is left among T tokens.
"""

import numpy as np
from jaxtyping import Int

from capax.compiler.proof.enclosed import exactly
from capax.compiler.proof.tables import HeadTables
from capax.errors import require

ROOM = 1 + 1e-12
"""Covers the rounding of a few float64 operations."""


def error_by_position(
    tables: HeadTables, members: Int[np.ndarray, " n"]
) -> tuple[float, Int[np.ndarray, " T"]]:
    """A number >= |output - mean of the members| on all M^T inputs, and an input with it."""
    same = (tables.logits.mid == tables.logits.mid[:, :1]).all() and tables.k == 1
    require(same, "head", "scores that do not depend on the symbols", "other scores")
    n, symbols = len(members), np.arange(float(tables.alphabet))
    weights, cls = tables.shifted_weights()
    Z = weights[:, 0].sum(0) + cls
    size = exactly(float(n))
    chosen = np.zeros((tables.T, 1))
    chosen[members] = 1.0
    parts = size * (weights * tables.values[:, :, 0]) - exactly(chosen * symbols) * Z  # [T, M]
    rest = size * (cls * tables.cls_value[0])
    over = exactly(parts.high.max(axis=1)).sum(0) + rest
    under = exactly(parts.low.min(axis=1)).sum(0) + rest
    below = float(np.nextafter(n * Z.low, 0.0))
    error = max(float(over.high), float(-under.low), 0.0) / below
    worst = parts.mid.argmax(axis=1) if over.high >= -under.low else parts.mid.argmin(axis=1)
    return float(np.nextafter(error, np.inf)), worst


def error_by_symbol(
    tables: HeadTables, members: tuple[int, ...]
) -> tuple[float, Int[np.ndarray, " T"]]:
    """The same where the members are the tokens with these symbols, if there is at least one.

    In `error`: the share of the others times R; values that are not the symbols themselves; and
    weights of members that differ. ROOM covers the rounding of these few sums and products.
    """
    rows = np.concatenate([tables.logits.mid, tables.values.mid[:, :, 0]], axis=1)
    same = (rows == rows[0]).all() and tables.k == 1
    require(same, "head", "scores that do not depend on positions", "other scores")
    weights, cls = tables.shifted_weights()
    weight, value = weights[0], tables.values[0, :, 0]
    inside = np.isin(np.arange(tables.alphabet), members)
    least, most = min(members), max(members)
    lowest = min(float(value.low[~inside].min()), float(tables.cls_value.low[0]))
    highest = max(float(value.high[~inside].max()), float(tables.cls_value.high[0]))
    R = max(highest - least, most - lowest)
    low, high = float(weight.low[inside].min()), float(weight.high[inside].max())
    others = ((tables.T - 1) * float(weight.high[~inside].max()) + float(cls.high)) * ROOM
    away = float((value - exactly(np.arange(float(tables.alphabet)))).size[inside].max())
    uneven = (high - low) / low * (most - least + away)
    error = (others / (low + others) * R + away + uneven) * ROOM
    heaviest = int(np.flatnonzero(~inside)[np.argmax(weight.mid[~inside])])
    worst = np.full(tables.T, heaviest)
    worst[0] = max((least, most), key=lambda c: abs(float(value.mid[heaviest]) - c))
    return error, worst
