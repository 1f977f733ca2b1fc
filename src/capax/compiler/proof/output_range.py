"""The range of the network's output at each pattern of the relevant bits, over all other bits.

Scalar read-out: the range of one linear-fractional function, exact. MLP: hidden units that look in
the same direction are one piecewise-linear function h of one number l in [low, high]; its range is
exact (ends and kinks), and the sum over directions is sound. It is tight when at each pattern all
directions but one are constant, as in every network compiled here.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from capax.attention import ClsMLP, ClsScalar
from capax.compiler.proof.linear_fractional import head_range
from capax.compiler.proof.tables import HeadTables, Model
from capax.errors import require


def output_range(
    model: Model, tables: HeadTables, support: Sequence[int]
) -> tuple[Float[np.ndarray, " rows"], Float[np.ndarray, " rows"]]:
    """(lowest, highest) output for each of the 2^s patterns, over all inputs that show it."""
    if isinstance(model, ClsScalar):
        require(model.activation == "identity", "activation", "identity", model.activation)
        c = np.asarray(model.W_C, np.float64) @ np.asarray(model.w, np.float64)
        low, high = head_range(tables, support, c[:, None])
        return low[:, 0], high[:, 0]
    return _mlp_range(model, tables, support)


def _mlp_range(
    model: ClsMLP, tables: HeadTables, support: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    W_1, b_1 = np.asarray(model.W_1, np.float64), np.asarray(model.b_1, np.float64)
    w_2 = np.asarray(model.w_2, np.float64)
    low = np.full(1 << len(support), float(model.b_2))
    high = low.copy()
    if not len(b_1):
        return low, high
    directions, group, gain = _directions(W_1)
    ends = head_range(tables, support, directions)
    members = _members(group, directions.shape[1])
    for g, units in enumerate(members):
        bottom, top = _ridge_range(
            ends[0][:, g], ends[1][:, g], gain[units], b_1[units], w_2[units]
        )
        low, high = low + bottom, high + top
    return low, high


def _members(group: np.ndarray, total: int) -> list[np.ndarray]:
    """The hidden units of each direction."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, total)))


def _directions(W_1: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit directions [k, g] of the columns, the direction of each unit, and its length."""
    gain = np.linalg.norm(W_1, axis=0)
    unit = W_1 / np.where(gain > 0, gain, 1.0)
    _, first, group = np.unique(
        np.round(unit, 12).T, axis=0, return_index=True, return_inverse=True
    )
    return unit[:, first], group.reshape(-1), gain


def _ridge_range(
    low: np.ndarray, high: np.ndarray, gain: np.ndarray, bias: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """min and max over l in [low, high] of sum_i weight_i relu(gain_i l + bias_i)."""

    def h(l: np.ndarray) -> np.ndarray:
        return np.maximum(l[:, None] * gain + bias, 0.0) @ weight

    kinks = [-b / g for g, b in zip(gain, bias, strict=True) if g > 0]
    points = [low, high, *(np.clip(kink, low, high) for kink in kinks)]
    values = np.stack([h(point) for point in points])
    return values.min(axis=0), values.max(axis=0)
