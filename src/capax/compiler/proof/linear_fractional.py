"""The exact range of a head over all 2^T inputs, whatever its weights: Dinkelbach's method.

In a direction c of the head output,

    l(b) = (n_0 + sum_t n_t(b_t)) / (z_0 + sum_t z_t(b_t)),    z > 0,

is a ratio of sums over positions. For a fixed pattern of the relevant bits its largest value over
all other bits is found by Dinkelbach's iteration: lambda <- l(b), b_t <- the bit with the larger
n_t - lambda z_t. The value rises at every step and the iteration stops at the exact maximum after
finitely many steps (max_b (n - lambda z) is decreasing in lambda and zero at the maximum). Cost
O(2^s T) for each direction; positions with equal tables are merged first, so compiled weights cost
O(2^s). This needs nothing of how the weights were made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.compiler.proof.tables import HeadTables
from capax.errors import InfeasibleError

MAX_STEPS = 200
BLOCK = 1 << 22
"""Numbers per array: patterns are treated in blocks of at most this size."""


@dataclass(frozen=True)
class Merged:
    """Numerators n[c, 2, k], masses z[c, 2], multiplicities of the merged irrelevant positions."""

    n: Float[np.ndarray, "c 2 k"]
    z: Float[np.ndarray, "c 2"]
    count: Float[np.ndarray, " c"]


def pattern_sums(
    tables: HeadTables, support: Sequence[int]
) -> tuple[Float[np.ndarray, "rows k"], Float[np.ndarray, " rows"]]:
    """Numerator and normaliser of [CLS] and the relevant tokens at each of the 2^s patterns."""
    mass, cls_mass = tables.masses()
    n = (cls_mass * tables.cls_value)[None]
    z = np.array([cls_mass])
    for t in support:
        parts = mass[t][:, None] * tables.values[t]
        n = np.concatenate([n + parts[0], n + parts[1]])
        z = np.concatenate([z + mass[t, 0], z + mass[t, 1]])
    return n, z


def merged_positions(tables: HeadTables, support: Sequence[int]) -> Merged:
    """Irrelevant positions with identical tables become one, with its multiplicity."""
    rest = np.delete(np.arange(tables.T), np.asarray(support, dtype=np.int64))
    mass, _ = tables.masses()
    k = tables.cls_value.size
    rows = np.concatenate([mass[rest], tables.values[rest].reshape(len(rest), 2 * k)], axis=1)
    if len(rest) and (rows == rows[0]).all():
        unique, count = rows[:1], np.array([len(rest)])
    else:
        unique, count = np.unique(rows, axis=0, return_counts=True)
    z = unique[:, :2]
    n = unique[:, 2:].reshape(len(unique), 2, k) * z[:, :, None]
    return Merged(n, z, count.astype(np.float64))


def head_range(
    tables: HeadTables, support: Sequence[int], directions: Float[np.ndarray, "k g"]
) -> tuple[Float[np.ndarray, "rows g"], Float[np.ndarray, "rows g"]]:
    """Exact (min, max) of c . u over all inputs with a given pattern, for each column c."""
    n, z = pattern_sums(tables, support)
    rest = merged_positions(tables, support)
    free = rest.n @ directions  # [c, 2, g]
    low, high = np.empty((len(n), directions.shape[1])), np.empty((len(n), directions.shape[1]))
    for rows in _blocks(len(n), len(rest.count) * directions.shape[1]):
        fixed = n[rows] @ directions
        high[rows] = _largest(fixed, z[rows], free, rest)
        low[rows] = -_largest(-fixed, z[rows], -free, rest)
    return low, high


def _blocks(total: int, width: int) -> Iterator[slice]:
    size = max(1, BLOCK // max(width, 1))
    return (slice(start, start + size) for start in range(0, total, size))


def _largest(
    fixed: Float[np.ndarray, "rows g"],
    z: Float[np.ndarray, " rows"],
    free: Float[np.ndarray, "c 2 g"],
    rest: Merged,
) -> Float[np.ndarray, "rows g"]:
    """max over the irrelevant bits of (fixed + sum n)/(z + sum z), by Dinkelbach."""
    gain = free[:, 1] - free[:, 0]  # [c, g]
    cost = (rest.z[:, 1] - rest.z[:, 0])[:, None]
    top = fixed + rest.count @ free[:, 0]
    bottom = (z + rest.count @ rest.z[:, 0])[:, None]
    value = top / bottom
    for _ in range(MAX_STEPS):
        chosen = (gain - value[:, None, :] * cost > 0) * rest.count[:, None]  # [rows, c, g]
        raised = top + (chosen * gain).sum(axis=1)
        better = raised / (bottom + (chosen * cost).sum(axis=1))
        if not (better > value).any():
            return value
        value = np.maximum(value, better)
    raise InfeasibleError("the exact range of the head did not settle; the weights are too extreme")
