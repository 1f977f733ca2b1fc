"""The version space: placements of f on the T positions that a sample has not refuted.

V_m = { J : f(x_J) = y for all m examples }. For a symmetric f, J runs over the s-subsets; otherwise
over ordered placements, counted once for each distinct function they give.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from capax.boolean.consistent.conjunctions import conjunction_placements
from capax.boolean.consistent.placement_search import consistent_placements
from capax.boolean.functions import SparseFunction, only_bits
from capax.boolean.named_functions import conjunction, disjunction
from capax.errors import require

MAX_WORK = 1_000_000_000
"""Words touched before a search is called infeasible: a few seconds on one core."""


@dataclass(frozen=True)
class VersionSpace:
    """`count` = |V|, `unique` = (|V| = 1), `supports` = the first placements found, up to a limit.

    A placement lists the position of each variable of f; for a symmetric f it is sorted.
    """

    count: int
    unique: bool
    supports: tuple[tuple[int, ...], ...]


def survivors(
    f: SparseFunction, X: Any, y: Any, *, keep: int = 1000, max_work: int = MAX_WORK
) -> VersionSpace:
    """Which placements of f agree with the sample X [m, T], y [m], and how many.

    Only the table of f is used, not its support; irrelevant variables are dropped first.
    Raises `InputError` for a sample of the wrong shape or not of bits, `InfeasibleError` when the
    search would take more than `max_work` words (1e9: a few seconds).
    """
    count, kept = 0, []
    for block in _blocks(f, *_checked(X, y), max_work):
        kept += [tuple(row) for row in block[: max(0, keep - count)].tolist()]
        count += len(block)
    return VersionSpace(count, count == 1, tuple(kept))


def count_up_to(f: SparseFunction, X: Any, y: Any, limit: int, *, max_work: int = MAX_WORK) -> int:
    """min(|V|, limit); stops searching as soon as `limit` placements are found."""
    count = 0
    for block in _blocks(f, *_checked(X, y), max_work):
        count += len(block)
        if count >= limit:
            return limit
    return count


def survivors_up_to(
    f: SparseFunction, X: Any, y: Any, limit: int, *, max_work: int = MAX_WORK
) -> np.ndarray:
    """The first `limit` placements [n, s] that agree with the sample; all of V where n < limit."""
    only_bits(f)
    found: list[np.ndarray] = []
    count = 0
    for block in _blocks(f, *_checked(X, y), max_work):
        found.append(block)
        count += len(block)
        if count >= limit:
            break
    return np.concatenate(found)[:limit] if found else np.empty((0, f.s), dtype=np.int64)


def is_unique(f: SparseFunction, X: Any, y: Any, *, max_work: int = MAX_WORK) -> bool:
    """Does the sample leave one placement of f only? Stops at the second one."""
    return count_up_to(f, X, y, 2, max_work=max_work) == 1


def _blocks(f: SparseFunction, X: np.ndarray, y: np.ndarray, max_work: int) -> Iterator[np.ndarray]:
    """Consistent placements in blocks: covers for AND and OR, the general search for the rest."""
    g, kind = _by_table(f)
    if kind == "and":
        return conjunction_placements(g.s, X, y, max_work)
    if kind == "or":  # AND of flipped bits, label flipped
        return conjunction_placements(g.s, 1 - X.astype(np.uint8, copy=False), 1 - y, max_work)
    return consistent_placements(g, X, y, max_work)


@lru_cache(maxsize=32)
def _by_table(f: SparseFunction) -> tuple[SparseFunction, str]:
    """f without irrelevant variables, on 0..s-1 so that equal tables share cached work; its kind.

    Simulations use one f with thousands of samples.
    """
    g = f.relevant()
    g = g.on(range(g.s))
    if not g.s:
        return g, "other"
    if g == conjunction(range(g.s)):
        return g, "and"
    return g, "or" if g == disjunction(range(g.s)) else "other"


def _checked(X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = np.asarray(X), np.asarray(y)
    y = y.astype(np.float64) if y.dtype.kind in "bui" else y
    require(X.ndim == 2, "X", "a matrix [m, T]", X.shape)
    require(y.shape == X.shape[:1], "y", f"one label for each of {X.shape[0]} rows", y.shape)
    integer = X.dtype.kind in "bui" or bool((np.rint(X) == X).all())
    in_range = X.size == 0 or (X.min() >= 0 and X.max() <= 1)
    require(integer and in_range, "X", "bits 0 and 1", "other values")
    return X, y
