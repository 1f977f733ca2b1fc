"""A sparse function: a truth table on s positions, blind to every other bit of its input.

f(x) = table[row(x)],  row(x) = sum_i x[support[i]] 2^i :  the variable support[i] is bit i of the
row number. Tables are real-valued because the paper's definitions are for f: {0,1}^s -> R; a
Boolean function is one whose table holds only 0 and 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from capax.errors import InputError, require
from capax.html import html_table

MAX_SPARSITY = 20
"""Tables have 2^s entries; beyond s = 20 we refuse instead of filling the memory."""
_SHOWN_SPARSITY = 4  # a notebook shows the whole truth table up to 16 rows


@dataclass(frozen=True, eq=False)
class SparseFunction:
    """f: {0,1}^T -> R that depends on the positions in `support` only.

    Arguments: `support` = I, s distinct 0-based positions; `table` = the 2^s values, row
    sum_i x[support[i]] 2^i; `T` = input length, None while it does not matter; `notes` = remarks
    for the reader, e.g. which variables of a formula turned out not to matter.
    Raises `InputError` for repeated or negative positions, s > 20, a position >= T, or a table of
    the wrong length or with a NaN or an infinity.

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

    def __post_init__(self) -> None:
        support = check_support(self.support, self.T)
        table = np.array(self.table, dtype=np.float64)
        wanted = f"{1 << len(support)} values for {len(support)} positions"
        require(table.shape == (1 << len(support),), "table", wanted, table.shape)
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
        """True when f depends on x_I only through the number of ones."""
        return bool((self.table == self._values_by_weight()[row_weights(self.s)]).all())

    @property
    def is_monotone(self) -> bool:
        """True when turning a 0 into a 1 never lowers f."""
        return all(bool((low <= high).all()) for low, high in map(self.split, range(self.s)))

    def symmetric_values(self) -> Float[np.ndarray, " values"]:
        """phi(0..s) with f(x) = phi(number of ones in x_I). Raises unless f is symmetric."""
        require(self.is_symmetric, "function", "a symmetric function", self)
        return self._values_by_weight()

    def __call__(self, bits: Any) -> Any:
        """f at `bits` [..., T] (NumPy or JAX, also under jit and vmap): values of shape [...]."""
        xp = bits.__array_namespace__()
        least = max(self.support, default=-1) + 1
        wanted = f"last axis of {self.T if self.T is not None else f'at least {least}'} bits"
        fits = bits.ndim > 0 and bits.shape[-1] >= least and self.T in (None, bits.shape[-1])
        require(fits, "bits", wanted, bits.shape)
        rows = xp.zeros(bits.shape[:-1], dtype=np.int32)
        for i, position in enumerate(self.support):
            rows = rows | (bits[..., position].astype(np.int32) << i)
        return xp.asarray(self.table)[rows]

    def split(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """The table with variable i (an index into the support) set to 0 and to 1."""
        halves = self.table.reshape(-1, 2, 1 << i)
        return halves[:, 0, :].reshape(-1), halves[:, 1, :].reshape(-1)

    def relevance(self) -> Bool[np.ndarray, " s"]:
        """Entry i: does some input change its value when variable i is flipped?"""
        pairs = map(self.split, range(self.s))
        return np.array([bool((low != high).any()) for low, high in pairs], dtype=bool)

    def relevant(self) -> "SparseFunction":
        """The same function on its exact support, with a note for each variable dropped."""
        keep = self.relevance()
        if keep.all():
            return self
        table, dropped = self.table, [x for x, k in zip(self.support, keep, strict=True) if not k]
        for i in reversed(np.flatnonzero(~keep).tolist()):
            table = table.reshape(-1, 2, 1 << i)[:, 0, :].reshape(-1)
        kept = tuple(x for x, k in zip(self.support, keep, strict=True) if k)
        return SparseFunction(kept, table, self.T, (*self.notes, _dropped_note(dropped)))

    def on(self, support: Sequence[int], T: int | None = None) -> "SparseFunction":
        """The same table placed on other positions: variable i moves to `support[i]`."""
        require(len(support) == self.s, "support", f"{self.s} positions", support)
        return replace(self, support=tuple(int(x) for x in support), T=T)

    def __eq__(self, other: object) -> bool:
        """Same support in the same order, same table, same T; notes do not count."""
        if not isinstance(other, SparseFunction):
            return NotImplemented
        mine, theirs = (self.support, self.T), (other.support, other.T)
        return mine == theirs and bool(np.array_equal(self.table, other.table))

    def __hash__(self) -> int:
        return hash((self.support, self.T, self.table.tobytes()))

    def __repr__(self) -> str:
        length = "" if self.T is None else f", T={self.T}"
        return f"SparseFunction(support={self.support}, table={self._table_text()}{length})"

    def _repr_html_(self) -> str:
        """The function in a notebook: where it looks, what it is, its table if that is short."""
        kinds = {"Boolean": self.is_boolean, "symmetric": self.is_symmetric}
        kinds["monotone"] = self.is_monotone
        names = [f"x{i}" for i in self.support]
        rows: list[tuple[object, ...]] = [
            ("support", ", ".join(names) or "none"),
            ("T", "any" if self.T is None else self.T),
            ("kind", ", ".join(name for name, holds in kinds.items() if holds) or "real-valued"),
        ]
        rows += [] if self.s <= _SHOWN_SPARSITY else [("table", self._table_text())]
        text = html_table(rows, title="Sparse function", notes=self.notes)
        if self.s > _SHOWN_SPARSITY:
            return text
        bits = [[row >> i & 1 for i in range(self.s)] for row in range(1 << self.s)]
        table = [(*b, f"{value:g}") for b, value in zip(bits, self.table.tolist(), strict=True)]
        return text + html_table(table, head=[*names, "f"])

    def _repr_latex_(self) -> str:
        """phi of the number of ones for a symmetric function, else the list of its values."""
        names = [rf"x_{{{i}}}" for i in self.support]
        if self.s and self.is_symmetric:
            values = ", ".join(f"{value:g}" for value in self._values_by_weight())
            return rf"$f(x) = \phi({' + '.join(names)}),\quad \phi(0..{self.s}) = ({values})$"
        listed = self.table.tolist() if self.s <= _SHOWN_SPARSITY else self.table[:8].tolist()
        dots = "" if self.s <= _SHOWN_SPARSITY else r", \dots"
        values = ", ".join(f"{value:g}" for value in listed)
        return rf"$f({', '.join(names)}) = ({values}{dots})$"

    def _table_text(self) -> str:
        if not self.is_boolean or self.s > 8:
            return f"<{self.table.size} values>"
        return hex(sum(1 << row for row in np.flatnonzero(self.table).tolist()))

    def _values_by_weight(self) -> np.ndarray:
        """f on the inputs whose first k variables are 1, k = 0..s."""
        return self.table[(1 << np.arange(self.s + 1)) - 1]


def row_weights(s: int) -> Int[np.ndarray, " rows"]:
    """Number of ones in each of the 2^s row numbers."""
    return np.bitwise_count(np.arange(1 << s)).astype(np.int64)


def check_support(support: Sequence[int], T: int | None) -> tuple[int, ...]:
    """`support` as distinct 0-based positions below T; raises `InputError` with the culprit."""
    positions = tuple(int(x) for x in support)
    require(T is None or T >= 0, "T", "a length >= 0", T)
    require(
        len(positions) <= MAX_SPARSITY, "support", f"s <= {MAX_SPARSITY} positions", len(support)
    )
    require(len(set(positions)) == len(positions), "support", "distinct positions", positions)
    for x in positions:
        require(x >= 0, "support", "0-based positions >= 0", x)
        if T is not None and x >= T:
            last = f"the last one is x{T - 1}" if T else "there is none"
            raise InputError(f"x{x}: out of range for T = {T}; positions are 0-based, {last}")
    return positions


def _dropped_note(dropped: list[int]) -> str:
    names = ", ".join(f"x{x}" for x in dropped)
    verb = "does not matter and was" if len(dropped) == 1 else "do not matter and were"
    return f"{names} {verb} dropped"
