"""The function families of the paper, each one line of mathematics turned into a truth table."""

from collections.abc import Sequence

import numpy as np

from capax.boolean.functions import (
    SparseFunction,
    check_support,
    most_positions,
    row_weights,
)
from capax.errors import require


def symmetric(
    values: Sequence[float | int] | np.ndarray, support: Sequence[int], T: int | None = None
) -> SparseFunction:
    """f(x) = values[number of ones in x_I]: any symmetric function by its s+1 values."""
    positions = check_support(support, T)
    phi = np.asarray(values, dtype=np.float64)
    s = len(positions)
    require(phi.shape == (s + 1,), "values", f"{s + 1} numbers for s = {s}", np.shape(values))
    return SparseFunction(positions, phi[row_weights(s)], T)


def monotone_symmetric(
    values: Sequence[float | int] | np.ndarray, support: Sequence[int], T: int | None = None
) -> SparseFunction:
    """A symmetric function whose values never fall as ones are added (Boolean: a threshold)."""
    rising = np.all(np.diff(np.asarray(values, dtype=np.float64)) >= 0)
    require(rising, "values", "a non-decreasing sequence", list(values))
    return symmetric(values, support, T)


def threshold(r: int, support: Sequence[int], T: int | None = None) -> SparseFunction:
    """f(x) = 1 when at least r of the bits in I are 1."""
    s = len(support)
    require(0 <= r <= s + 1, "r", f"a threshold in 0..{s + 1} for s = {s}", r)
    return symmetric([float(k >= r) for k in range(s + 1)], support, T)


def conjunction(
    support: Sequence[int], T: int | None = None, *, negated: Sequence[int] = ()
) -> SparseFunction:
    """f(x) = 1 when every bit in I is 1 (bits listed in `negated`: 0). AND of no bit is 1."""
    return _with_negated(threshold(len(support), support, T), negated)


def disjunction(
    support: Sequence[int], T: int | None = None, *, negated: Sequence[int] = ()
) -> SparseFunction:
    """f(x) = 1 when some bit in I is 1 (bits listed in `negated`: 0). OR of no bit is 0."""
    return _with_negated(threshold(1, support, T), negated)


def parity(support: Sequence[int], T: int | None = None) -> SparseFunction:
    """f(x) = number of ones in x_I modulo 2 (XOR)."""
    return symmetric([float(k % 2) for k in range(len(support) + 1)], support, T)


def majority(support: Sequence[int], T: int | None = None) -> SparseFunction:
    """f(x) = 1 when more than half of the bits in I are 1 (a tie counts as 0)."""
    return threshold(len(support) // 2 + 1, support, T)


def staircase(support: Sequence[int], T: int | None = None, *, jump: int = 1) -> SparseFunction:
    """f(x) = 1 when most of the parities of the first r, 2r, ..., s bits of I are 1, r = `jump`.

    Each parity adds r bits to the one before it: the leap is r for uniform bits, the degree s. With
    r = 1 the bits can be found one by one; r = s is the parity. A tie counts as 0.
    """
    s = len(support)
    require(1 <= jump <= s, "jump", f"a leap in 1..{s} for s = {s}", jump)
    rows = np.arange(1 << s)
    ends = [*range(jump, s, jump), s]
    ones = np.sum([np.bitwise_count(rows & ((1 << end) - 1)) % 2 for end in ends], axis=0)
    return SparseFunction(check_support(support, T), (2 * ones > len(ends)).astype(np.float64), T)


def literal(i: int, negated: bool = False, T: int | None = None) -> SparseFunction:
    """f(x) = x_i, or 1 - x_i when negated."""
    return SparseFunction((i,), np.array([float(negated), float(not negated)]), T)


def constant(c: float | int, T: int | None = None) -> SparseFunction:
    """f(x) = c for every x; its support is empty."""
    return SparseFunction((), np.array([float(c)]), T)


def from_table(
    table: Sequence[float | int] | np.ndarray | int,
    support: Sequence[int],
    T: int | None = None,
    alphabet: int = 2,
) -> SparseFunction:
    """f from its M^s values in row order, or from an integer whose bit k is the value in row k."""
    positions = check_support(support, T, alphabet)
    if isinstance(table, int):
        rows = table_from_integer(table, len(positions), alphabet)
    else:
        rows = np.asarray(table, dtype=np.float64)
    return SparseFunction(positions, rows, T, alphabet=alphabet)


def table_from_integer(number: int, s: int, alphabet: int = 2) -> np.ndarray:
    """The M^s bits of `number`, lowest first. Raises unless 0 <= number < 2^(M^s)."""
    most = most_positions(alphabet)
    require(0 <= s <= most, "s", f"0 <= s <= {most}", s)
    rows = alphabet**s
    fits = number >= 0 and number.bit_length() <= rows
    require(fits, "table", f"an integer of at most {rows} bits for s = {s}", f"{number:#x}")
    raw = np.frombuffer(number.to_bytes(-(-rows // 8), "little"), dtype=np.uint8)
    return np.unpackbits(raw, bitorder="little")[:rows].astype(np.float64)


def _with_negated(f: SparseFunction, negated: Sequence[int]) -> SparseFunction:
    """f with the variables at the positions `negated` replaced by their negations."""
    strangers = sorted(set(negated) - set(f.support))
    require(not strangers, "negated", f"positions of the support {f.support}", strangers)
    flips = sum(1 << i for i, x in enumerate(f.support) if x in negated)
    return SparseFunction(f.support, f.table[np.arange(f.table.size) ^ flips], f.T, f.notes)
