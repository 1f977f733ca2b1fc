"""The range of a compiled network where irrelevant inputs are any numbers in [0, 1], not bits only.

Other verifiers work on boxes. A theorem about the corners of a box says nothing about its interior,
which needs its own proof. Fix the relevant bits. For b in [0, 1] a token has the weight
e^(s_0 + b (s_1 - s_0)), between its two weights, and the value v_0 + b (v_1 - v_0), between its two
values. In a direction c of the head and for every level L,

    e^s(b) (c . v(b) - L)  <=  e^s(b) (v - L)  <=  max over the two weights w of  w (v - L),

where v = max(c . v_0, c . v_1), since w (v - L) is linear in w. So the upper end of c . u over the
box is at most its upper end over the CORNERS of another head: same scores, and v as the value of
both symbols. That end is proved as before (`capax.compiler.proof.linear_fractional`). Lower ends
use the smaller value. The bound is not sharp, because score and value are treated as independent.
"""

from collections.abc import Sequence

import numpy as np

from capax.attention import ClsScalar
from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.compiler.proof.linear_fractional import head_range
from capax.compiler.proof.output_range import hidden_units, scalar_direction, summed_ridges
from capax.compiler.proof.tables import HeadTables, Model


def box_range(
    model: Model, tables: HeadTables, support: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(lower, upper) end of the output at each pattern of the support, over the box of the rest."""
    if isinstance(model, ClsScalar):
        low, high = _direction_ends(tables, scalar_direction(model), support)
        return low[:, 0], high[:, 0]
    hidden = hidden_units(model)
    return summed_ridges(hidden, *_direction_ends(tables, exactly(hidden.columns), support))


def _direction_ends(
    tables: HeadTables, directions: Enclosed, support: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Ends [rows, g] of every direction, a column each, over the box."""
    values, cls = tables.values @ directions, tables.cls_value @ directions  # [T, 2, g], [g]
    high = head_range(_tables(tables, values.high, cls.high, support, np.maximum), support).high
    low = head_range(_tables(tables, values.low, cls.low, support, np.minimum), support).low
    return low, high


def _tables(
    tables: HeadTables, values: np.ndarray, cls: np.ndarray, support: Sequence[int], end: np.ufunc
) -> HeadTables:
    """The same scores; every position outside the support has one value for both bits."""
    flat = np.repeat(end.reduce(values, axis=1, keepdims=True), 2, axis=1)
    flat[list(support)] = values[list(support)]
    return HeadTables(tables.logits, exactly(flat), tables.cls_logit, exactly(cls))
