"""A set of inputs, in plain float64: fixed bits, and sums over tokens that are at most 0.

The formulas are those of `capax.proving.capax_check` (`InputCell`), which believes nothing of this.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class FloatCell:
    """Fixed bits, and limits: sums over tokens [2 T + 1] that are at most 0 on the cell."""

    T: int
    fixed: dict[int, int]
    given: tuple[np.ndarray, ...] = ()
    counted: tuple[int, int] | None = None
    """The least and the largest number of ones, where the cell is cut by it."""

    @property
    def ones(self) -> tuple[int, int]:
        """The least and the largest number of ones, by fixed bits and cuts."""
        first, last = self.counted or (0, self.T)
        fixed = sum(self.fixed.values())
        return max(first, fixed), min(last, self.T - len(self.fixed) + fixed)

    @cached_property
    def free(self) -> np.ndarray:
        return np.array([t for t in range(self.T) if t not in self.fixed], np.int64)

    @cached_property
    def limits(self) -> list[np.ndarray]:
        """Their forms, the newest first, as the checker takes them."""
        return [self.form(terms[:, None])[:, 0] for terms in reversed(self.given)]

    def form(self, terms: np.ndarray) -> np.ndarray:
        """Forms [1 + F, g] of sums of terms [2 T + 1, g]."""
        there = [2 * t + self.fixed.get(t, 0) for t in range(self.T)]
        start = terms[there].sum(0) + terms[-1]
        return np.concatenate([start[None], terms[2 * self.free + 1] - terms[2 * self.free]])

    def most(self, forms: np.ndarray) -> np.ndarray:
        """The checker's upper end of each column."""
        forms = self.reduced(forms)
        return forms[0] + np.maximum(forms[1:], 0).sum(0)

    def reduced(self, forms: np.ndarray) -> np.ndarray:
        """Columns that are at least as large: limits times the checker's multipliers less."""
        for limit in self.limits:
            rows = 1 + np.flatnonzero(limit[1:])
            a, b = forms[rows], limit[rows, None]
            over = limit[0] + (b * (a > 0)).sum(0)
            hot = np.flatnonzero(over > 0)
            if not len(hot) or not len(a):
                continue
            a = a[:, hot]
            with np.errstate(all="ignore"):
                turns = np.where(a * b > 0, a / b, np.inf)
            order = np.argsort(turns, axis=0)
            left = over[hot] - np.cumsum(np.abs(limit[rows])[order], axis=0)
            at = np.argmax(left <= 0, axis=0)
            turn = np.take_along_axis(np.take_along_axis(turns, order, 0), at[None], 0)[0]
            usable = (left[at, np.arange(len(hot))] <= 0) & np.isfinite(turn)
            forms = forms.copy()
            places = np.ix_([0, *rows], hot[usable])
            forms[places] -= turn[usable] * limit[places[0]]
        return forms

    def ends(self, forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest value of each column; noise behind the gains."""
        F = 1 + len(self.free)
        noise = np.abs(forms[F:]).sum(0)
        return -self.most(-forms[:F]) - noise, self.most(forms[:F]) + noise
