"""Irrelevant positions whose tables agree in every bit count as one, with a multiplicity.

Nothing is merged because it looks equal: logits, values and their errors must be the same numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from capax.compiler.proof.rounding import Enclosed
from capax.compiler.proof.tables import HeadTables

SORTED = 1 << 14
"""Up to this many positions are sorted to find equal ones; more are compared with a common one."""


class FreePositions(NamedTuple):
    """Logits [c, 2], values [c, 2, k] and multiplicity [c] of the positions outside a support."""

    logits: Enclosed
    values: Enclosed
    count: Float[np.ndarray, " c"]


def free_positions(tables: HeadTables, support: Sequence[int]) -> FreePositions:
    """The positions outside `support`, equal ones merged."""
    rest = np.delete(np.arange(tables.T), np.asarray(support, dtype=np.int64))
    columns = (
        tables.logits,
        np.broadcast_to(tables.logit_error, tables.logits.shape),
        tables.values,
        np.broadcast_to(tables.value_error, tables.values.shape),
    )
    first, count = _distinct(columns, rest)
    logits, logit_error, values, value_error = (column[first] for column in columns)
    return FreePositions(
        Enclosed(logits, logit_error), Enclosed(values, value_error), count.astype(np.float64)
    )


def _distinct(columns: tuple[np.ndarray, ...], rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One position of each kind among `rest`, and how many there are of it."""
    chosen, counts = rest[:0], np.zeros(0, np.int64)
    for guess in (0, 1, 2):  # the commonest rows first: compiled weights have one kind of them
        if len(rest) <= SORTED:
            break
        model = int(rest[len(rest) * (2 * guess + 1) // 6])
        same = _equal_to(columns, rest, model)
        chosen, counts = np.append(chosen, model), np.append(counts, same.sum())
        rest = rest[~same]
    if not len(rest):
        return chosen, counts
    if len(rest) > SORTED:
        return np.append(chosen, rest), np.append(counts, np.ones(len(rest), np.int64))
    rows = np.concatenate([c[rest].reshape(len(rest), -1) for c in columns], axis=1)
    _, first, number = np.unique(rows, axis=0, return_index=True, return_counts=True)
    return np.append(chosen, rest[first]), np.append(counts, number)


def _equal_to(columns: tuple[np.ndarray, ...], rest: np.ndarray, model: int) -> np.ndarray:
    same = np.ones(len(rest), dtype=bool)
    for column in columns:
        equal = column[rest] == column[model]
        same &= equal.reshape(len(rest), -1).all(axis=1)
    return same
