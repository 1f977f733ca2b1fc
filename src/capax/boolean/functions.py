"""A sparse function: a truth table on s positions; no other symbol of its input matters.

f(x) = table[row(x)],  row(x) = sum_i x[support[i]] M^i :  the variable support[i] is digit i of the
row number, M the size of the alphabet, 2 by default. Tables are real-valued because the
paper's definitions are for f: {0,1}^s -> R; a Boolean function is one whose table holds only 0 and
1, whatever its alphabet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from capax.errors import InputError, require
from capax.html import html_table

MAX_SPARSITY = 20
"""Tables have M^s entries; beyond 2^20 we refuse instead of filling the memory."""
MAX_ALPHABET = 256
"""Inputs are bytes."""
_SHOWN_ROWS = 16  # a notebook shows the whole truth table up to here


@dataclass(frozen=True, eq=False)
class SparseFunction:
    """f: {0..M-1}^T -> R that depends on the positions in `support` only.

    Arguments: `support` = I, s distinct 0-based positions; `table` = the M^s values, row
    sum_i x[support[i]] M^i; `T` = input length, None while it does not matter; `notes` = remarks
    for the reader, e.g. which variables of a formula turned out not to matter; `alphabet` = M.
    Raises `InputError` for repeated or negative positions, M^s > 2^20, a position >= T, or a table
    of the wrong length or with a NaN or an infinity.

    Examples:
        >>> import numpy as np, capax
        >>> f = capax.SparseFunction(support=(1, 3), table=np.array([0.0, 1.0, 1.0, 0.0]), T=5)
        >>> f(np.array([0, 1, 0, 0, 1])).item(), f.is_symmetric
        (1.0, True)
    """

    support: tuple[int, ...]
    table: Float[np.ndarray, " rows"]
    T: int | None = None
    notes: tuple[str, ...] = field(default=())
    alphabet: int = 2

    def __post_init__(self) -> None:
        support = check_support(self.support, self.T, self.alphabet)
        table = np.array(self.table, dtype=np.float64)
        rows = self.alphabet ** len(support)
        wanted = f"{rows} values for {len(support)} positions"
        require(table.shape == (rows,), "table", wanted, table.shape)
        require(np.isfinite(table).all(), "table", "finite values", "NaN or infinity")
        table.flags.writeable = False
        object.__setattr__(self, "support", support)
        object.__setattr__(self, "table", table)

    @property
    def s(self) -> int:
        """Number of positions in the support (the sparsity, where every one is relevant)."""
        return len(self.support)

    @property
    def is_boolean(self) -> bool:
        """True when the table holds only 0 and 1."""
        return bool(np.isin(self.table, (0.0, 1.0)).all())

    @property
    def is_symmetric(self) -> bool:
        """True when f is unchanged by every permutation of the symbols of x_I."""
        axes = self.table.reshape((self.alphabet,) * self.s)
        swaps = (np.swapaxes(axes, 0, i) for i in range(1, self.s))  # these generate all orders
        return all(np.array_equal(axes, swapped) for swapped in swaps)

    @property
    def is_monotone(self) -> bool:
        """True when a larger symbol (1 instead of 0) never lowers f."""
        parts = (pair for i in range(self.s) for pair in pairwise(self.split(i)))
        return all(bool((low <= high).all()) for low, high in parts)

    def symmetric_values(self) -> Float[np.ndarray, " values"]:
        """phi(0..s) with f(x) = phi(number of ones in x_I). Raises unless f is symmetric."""
        fits = self.is_symmetric and self.alphabet == 2
        require(fits, "function", "a symmetric function of bits", self)
        return self._values_by_weight()

    def __call__(self, bits: Any) -> Any:
        """f at `bits` [..., T] (NumPy or JAX, also under jit and vmap): values of shape [...]."""
        xp = bits.__array_namespace__()
        least = max(self.support, default=-1) + 1
        kind = "bits" if self.alphabet == 2 else "symbols"
        wanted = f"last axis of {self.T if self.T is not None else f'at least {least}'} {kind}"
        fits = bits.ndim > 0 and bits.shape[-1] >= least and self.T in (None, bits.shape[-1])
        require(fits, "bits", wanted, bits.shape)
        rows = xp.zeros(bits.shape[:-1], dtype=np.int32)
        for i, position in enumerate(self.support):
            rows = rows + bits[..., position].astype(np.int32) * np.int32(self.alphabet**i)
        return xp.asarray(self.table)[rows]

    def split(self, i: int) -> tuple[np.ndarray, ...]:
        """The table with variable i (an index into the support) set to 0, 1, ..., M - 1."""
        parts = self.table.reshape(-1, self.alphabet, self.alphabet**i)
        return tuple(parts[:, c, :].reshape(-1) for c in range(self.alphabet))

    def relevance(self) -> Bool[np.ndarray, " s"]:
        """Entry i: does some input change its value when variable i takes another symbol?"""
        parts = (self.split(i) for i in range(self.s))
        return np.array([any((first != c).any() for c in rest) for first, *rest in parts], bool)

    def relevant(self) -> "SparseFunction":
        """The same function on its exact support, with a note for each variable dropped."""
        keep = self.relevance()
        if keep.all():
            return self
        table, dropped = self.table, [x for x, k in zip(self.support, keep, strict=True) if not k]
        for i in reversed(np.flatnonzero(~keep).tolist()):
            table = table.reshape(-1, self.alphabet, self.alphabet**i)[:, 0, :].reshape(-1)
        kept = tuple(x for x, k in zip(self.support, keep, strict=True) if k)
        notes = (*self.notes, _dropped_note(dropped))
        return SparseFunction(kept, table, self.T, notes, self.alphabet)

    def on(self, support: Sequence[int], T: int | None = None) -> "SparseFunction":
        """The same table placed on other positions: variable i moves to `support[i]`."""
        require(len(support) == self.s, "support", f"{self.s} positions", support)
        return replace(self, support=tuple(int(x) for x in support), T=T)

    def in_order(self) -> "SparseFunction":
        """The same function with its variables in increasing order."""
        order = sorted(range(self.s), key=self.support.__getitem__)
        axes = self.table.reshape((self.alphabet,) * self.s)  # axis s-1-i is variable i
        table = axes.transpose([self.s - 1 - i for i in reversed(order)]).reshape(-1)
        return replace(self, support=tuple(sorted(self.support)), table=table)

    def __eq__(self, other: object) -> bool:
        """Same support in the same order, same table, same T; notes do not count."""
        if not isinstance(other, SparseFunction):
            return NotImplemented
        mine, theirs = ((f.support, f.T, f.alphabet) for f in (self, other))
        return mine == theirs and bool(np.array_equal(self.table, other.table))

    def __hash__(self) -> int:
        return hash((self.support, self.T, self.alphabet, self.table.tobytes()))

    def __repr__(self) -> str:
        rest = "" if self.T is None else f", T={self.T}"
        rest += "" if self.alphabet == 2 else f", alphabet={self.alphabet}"
        return f"SparseFunction(support={self.support}, table={self._table_text()}{rest})"

    def _repr_html_(self) -> str:
        """The function in a notebook: its support, its kind, and a short table."""
        kinds = {"Boolean": self.is_boolean, "symmetric": self.is_symmetric}
        kinds["monotone"] = self.is_monotone
        names = [f"x{i}" for i in self.support]
        rows: list[tuple[object, ...]] = [
            ("support", ", ".join(names) or "none"),
            ("T", "any" if self.T is None else self.T),
            ("kind", ", ".join(name for name, holds in kinds.items() if holds) or "real-valued"),
        ]
        rows += [] if self.alphabet == 2 else [("alphabet", self.alphabet)]
        short = self.table.size <= _SHOWN_ROWS
        rows += [] if short else [("table", self._table_text())]
        text = html_table(rows, title="Sparse function", notes=self.notes)
        if not short:
            return text
        shown = all_patterns(self.s, self.alphabet).tolist()
        table = [(*x, f"{value:g}") for x, value in zip(shown, self.table.tolist(), strict=True)]
        return text + html_table(table, head=[*names, "f"])

    def _repr_latex_(self) -> str:
        """phi of the number of ones for a symmetric function, else the list of its values."""
        names = [rf"x_{{{i}}}" for i in self.support]
        if self.s and self.is_symmetric and self.alphabet == 2:
            values = ", ".join(f"{value:g}" for value in self._values_by_weight())
            return rf"$f(x) = \phi({' + '.join(names)}),\quad \phi(0..{self.s}) = ({values})$"
        short = self.table.size <= _SHOWN_ROWS
        listed = self.table.tolist() if short else self.table[:8].tolist()
        dots = "" if short else r", \dots"
        values = ", ".join(f"{value:g}" for value in listed)
        return rf"$f({', '.join(names)}) = ({values}{dots})$"

    def _table_text(self) -> str:
        if not self.is_boolean or self.table.size > 256:
            return f"<{self.table.size} values>"
        return hex(sum(1 << row for row in np.flatnonzero(self.table).tolist()))

    def _values_by_weight(self) -> np.ndarray:
        """f on the inputs whose first k variables are 1, k = 0..s."""
        return self.table[(1 << np.arange(self.s + 1)) - 1]


def row_weights(s: int) -> Int[np.ndarray, " rows"]:
    """Number of ones in each of the 2^s row numbers."""
    return np.bitwise_count(np.arange(1 << s)).astype(np.int64)


def only_bits(f: SparseFunction) -> None:
    """Raise `InputError` for a function of more than two symbols, where only bits are handled."""
    require(f.alphabet == 2, "function", "a function of bits (alphabet 2)", f)


def all_patterns(s: int, alphabet: int = 2) -> Int[np.ndarray, "rows s"]:
    """The M^s patterns of s symbols, in the order of a truth table."""
    return np.arange(alphabet**s)[:, None] // alphabet ** np.arange(s) % alphabet


def most_positions(alphabet: int) -> int:
    """The largest s with M^s <= 2^20. Raises `InputError` unless M is one of 2..256."""
    whole = isinstance(alphabet, int | np.integer) and not isinstance(alphabet, bool)
    fits = whole and 2 <= alphabet <= MAX_ALPHABET
    require(fits, "alphabet", f"a number of symbols in 2..{MAX_ALPHABET}", alphabet)
    return next(s for s in range(MAX_SPARSITY, 0, -1) if int(alphabet) ** s <= 1 << MAX_SPARSITY)


def check_support(support: Sequence[int], T: int | None, alphabet: int = 2) -> tuple[int, ...]:
    """`support` as distinct 0-based positions below T; raises `InputError` that names the wrong
    position."""
    positions = tuple(int(x) for x in support)
    require(T is None or T >= 0, "T", "a length >= 0", T)
    most = most_positions(alphabet)
    require(len(positions) <= most, "support", f"s <= {most} positions", len(support))
    require(len(set(positions)) == len(positions), "support", "distinct positions", positions)
    for x in positions:
        require(x >= 0, "support", "0-based positions >= 0", x)
        if T is not None and x >= T:
            last = f"the last one is x{T - 1}" if T else "and there is no position"
            raise InputError(f"x{x}: out of range for T = {T}; positions are 0-based, {last}")
    return positions


def _dropped_note(dropped: list[int]) -> str:
    names = ", ".join(f"x{x}" for x in dropped)
    verb = "does not matter and was" if len(dropped) == 1 else "do not matter and were"
    return f"{names} {verb} dropped"
