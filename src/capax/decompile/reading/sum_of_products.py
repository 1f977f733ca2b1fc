"""Minimal sums of products (Quine, McCluskey) and XOR normal forms (Reed, Muller).

A cube is a pair of integers (mask, bits): the product of the literals of the variables in `mask`,
x_i where bit i of `bits` is 1 and ~x_i where it is 0. Two cubes that differ in one literal merge;
cubes that merge no further are the prime implicants, and the cheapest set of them that covers every
true row is an integer program of set-cover type. Every sum of products with the fewest literals
consists of prime implicants.

The XOR normal form of a function is unique for each choice of literals (x_i or ~x_i): the subset
sums modulo 2 of its table. All 2^s choices are tried.
"""

from dataclasses import dataclass

import numpy as np

MAX_VARIABLES = 10
SECONDS = 4.0
"""Time limit of the integer program; after it the best sum so far is used, as not minimal."""
Cube = tuple[int, int]


@dataclass(frozen=True)
class Sum:
    """Products that are added (or XORed); `proved`: no sum of this kind has fewer literals."""

    cubes: tuple[Cube, ...]
    proved: bool

    @property
    def literals(self) -> int:
        """Number of literals written."""
        return sum(mask.bit_count() for mask, _ in self.cubes)


def prime_implicants(true_rows: set[int], s: int) -> list[Cube]:
    """All maximal cubes on which the function is 1."""
    full = (1 << s) - 1
    level: set[Cube] = {(full, row) for row in true_rows}
    primes: list[Cube] = []
    while level:
        merged: set[Cube] = set()
        used: set[Cube] = set()
        for mask, bits in level:
            for i in range(s):
                flip = 1 << i
                partner = (mask, bits ^ flip)
                if mask & flip and partner in level:
                    merged.add((mask ^ flip, bits & ~flip))
                    used.add((mask, bits))
        primes += sorted(level - used)
        level = merged
    return primes


def minimal_sum(table: np.ndarray) -> Sum | None:
    """A sum of products with the fewest literals; None for too many variables."""
    s = int(table.size).bit_length() - 1
    if s > MAX_VARIABLES:
        return None
    rows = np.flatnonzero(table)
    primes = prime_implicants(set(rows.tolist()), s)
    if len(primes) <= 1:
        return Sum(tuple(primes), True)
    masks, bits = (np.array(column) for column in zip(*primes, strict=True))
    covers = (rows[:, None] & masks[None, :]) == bits[None, :]  # [rows, primes]
    chosen, proved = _cheapest_cover(covers, np.bitwise_count(masks).astype(np.float64))
    return Sum(tuple(primes[i] for i in chosen), proved)


def _cheapest_cover(covers: np.ndarray, literals: np.ndarray) -> tuple[list[int], bool]:
    """Columns that cover every row with the fewest literals, then the fewest products."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    needed = np.unique(covers[covers.sum(axis=1) == 1].argmax(axis=1)).tolist()
    rest = ~covers[:, needed].any(axis=1) if needed else np.ones(len(covers), bool)
    if not rest.any():
        return needed, True
    columns = np.flatnonzero(covers[rest].any(axis=0))
    cost = literals[columns] + 1.0 / (1 + len(literals))
    found = milp(
        cost,
        integrality=np.ones(len(columns)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(covers[np.ix_(rest, columns)].astype(float), lb=1),
        options={"time_limit": SECONDS},
    )
    if found.x is None:
        return list(range(covers.shape[1])), False
    chosen = columns[found.x > 0.5].tolist()
    return sorted([*needed, *chosen]), bool(found.status == 0)


def xor_normal_form(table: np.ndarray) -> Sum | None:
    """The XOR of products with the fewest literals, over all choices of x_i or ~x_i."""
    s = int(table.size).bit_length() - 1
    if s > MAX_VARIABLES:
        return None
    rows = np.arange(table.size)
    weights = np.bitwise_count(rows)
    best, flips, terms = np.inf, 0, rows[:0]
    for signs in range(1 << s):
        present = np.flatnonzero(_subset_sums(table[rows ^ signs].astype(np.uint8), s))
        cost = weights[present].sum() + 0.01 * (len(present) + signs.bit_count())
        if cost < best:
            best, flips, terms = cost, signs, present
    cubes = tuple((int(term), int(term) & ~flips) for term in terms)
    return Sum(cubes, True)


def _subset_sums(table: np.ndarray, s: int) -> np.ndarray:
    """Coefficients of the XOR normal form: sums modulo 2 over all subsets."""
    c = table.copy()
    for i in range(s):
        pairs = c.reshape(-1, 2, 1 << i)
        pairs[:, 1] ^= pairs[:, 0]
    return c
