"""All placements of a function on T positions, listed, and how long each survives a sample.

A family of supports gives the possible positions of a function: "random" any s positions,
"contiguous" s neighbours. Listing every placement is the simplest way to find a version space. It
is also the fastest way for few placements, because 64 examples share a machine word.
"""

import itertools
import math
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int, UInt64

from capax.boolean.consistent.packing import pack
from capax.boolean.functions import SparseFunction
from capax.boolean.traits.symmetries import num_automorphisms, permuted_rows

Supports = Literal["random", "contiguous"]
_FAR = 1 << 62  # the example at which a placement that agrees with all examples is refuted


def num_placements(f: SparseFunction, T: int, supports: Supports = "random") -> int:
    """How many distinct functions f makes on T positions; every variable must be relevant."""
    sets = math.comb(T, f.s) if supports == "random" else max(0, T - f.s + 1)
    return sets * (math.factorial(f.s) // num_automorphisms(f))


@lru_cache(maxsize=64)
def all_placements(
    f: SparseFunction, T: int, supports: Supports = "random"
) -> Int[np.ndarray, "N s"]:
    """The position of each variable in every placement, each function once."""
    if supports == "random":
        sets = np.array(list(itertools.combinations(range(T), f.s)), dtype=np.int64)
    else:
        sets = np.arange(T - f.s + 1)[:, None] + np.arange(f.s)[None, :]
    return np.concatenate([sets.reshape(-1, f.s)[:, order] for order in _orders(f)])


@lru_cache(maxsize=64)
def _orders(f: SparseFunction) -> tuple[list[int], ...]:
    """One order of the variables for each function that f makes on a set of s positions."""
    found: dict[bytes, list[int]] = {}
    for order in itertools.permutations(range(f.s)):
        found.setdefault(f.table[permuted_rows(order)].tobytes(), list(order))
    return tuple(found.values())


def refuted_at(
    f: SparseFunction,
    X: Bool[np.ndarray, "m T"],
    y: np.ndarray,
    placements: Int[np.ndarray, "n s"],
) -> Int[np.ndarray, " n"]:
    """The index of the first example that refutes each placement; a huge number without one.

    The placement belongs to V_m exactly for m up to this index. The most frequent value of the
    table needs no term of its own: it applies where no other row matches.
    """
    columns = pack(X.T)  # [T, W]
    values, times = np.unique(f.table, return_counts=True)
    common = values[times.argmax()]
    wrong = {v: pack((y != v)[None, :])[0] for v in values.tolist()}
    mismatch = np.zeros((len(placements), columns.shape[1]), dtype=np.uint64)
    covered = np.zeros_like(mismatch)
    for row in np.flatnonzero(f.table != common):
        cell = np.full_like(mismatch, np.uint64(2**64 - 1))
        for i in range(f.s):
            words = columns[placements[:, i]]
            cell &= words if (row >> i) & 1 else ~words
        covered |= cell
        mismatch |= cell & wrong[float(f.table[row])]
    mismatch |= ~covered & wrong[float(common)]
    return _first_bit(mismatch)


def _first_bit(words: UInt64[np.ndarray, "n W"]) -> Int[np.ndarray, " n"]:
    """The number of the first bit that is set, over all words of a row."""
    if words.shape[1] == 0:
        return np.full(len(words), _FAR)
    which = (words != 0).argmax(axis=1)
    word = words[np.arange(len(words)), which]
    lowest = np.bitwise_count((word & (~word + np.uint64(1))) - np.uint64(1)).astype(np.int64)
    return np.where(word != 0, 64 * which + lowest, _FAR)
