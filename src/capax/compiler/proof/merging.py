"""Irrelevant positions whose tables agree in every bit count as one, with a multiplicity.

Only equal numbers are merged: logits, values and their errors must agree in every bit.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from capax.compiler.proof.enclosed import Enclosed
from capax.compiler.proof.tables import HeadTables

SORTED = 1 << 14
"""Up to this many positions are sorted to find equal ones; more are compared with a common one."""


class FreePositions(NamedTuple):
    """Logits [c, A], values [c, A, k] and multiplicity [c] of the positions outside a support.

    `kind` = the index (below c) of each position, in the order of the positions.
    """

    logits: Enclosed
    values: Enclosed
    count: Float[np.ndarray, " c"]
    kind: Integer[np.ndarray, " free"]


def free_positions(tables: HeadTables, support: Sequence[int]) -> FreePositions:
    """The positions outside `support`, equal ones merged."""
    rest = np.delete(np.arange(tables.T), np.asarray(support, dtype=np.int64))
    logits, values = tables.logits, tables.values
    first, kind = _distinct((logits.mid, logits.rad, values.mid, values.rad), rest)
    count = np.bincount(kind, minlength=len(first)).astype(np.float64)
    return FreePositions(logits[first], values[first], count, kind)


def _distinct(columns: tuple[np.ndarray, ...], rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One position of each kind among `rest`, and the kind of every one of them."""
    chosen, kind = rest[:0], np.empty(len(rest), np.int64)
    left = np.arange(len(rest))
    for guess in (0, 1, 2):  # the commonest rows first: compiled weights have one kind of them
        if len(left) <= SORTED:
            break
        model = int(rest[left[len(left) * (2 * guess + 1) // 6]])
        same = _equal_to(columns, rest[left], model)
        kind[left[same]] = len(chosen)
        chosen, left = np.append(chosen, model), left[~same]
    if len(left) > SORTED:
        kind[left] = len(chosen) + np.arange(len(left))
        return np.append(chosen, rest[left]), kind
    if len(left):
        rows = np.concatenate([c[rest[left]].reshape(len(left), -1) for c in columns], axis=1)
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        kind[left] = len(chosen) + number.reshape(-1)
        chosen = np.append(chosen, rest[left[first]])
    return chosen, kind


def _equal_to(columns: tuple[np.ndarray, ...], rest: np.ndarray, model: int) -> np.ndarray:
    """The positions of `rest` with exactly the numbers of position `model`."""
    same = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        flat = column.reshape(len(column), -1)
        for j in range(flat.shape[1]):
            same &= flat[:, j] == flat[model, j]
    return same[rest]
