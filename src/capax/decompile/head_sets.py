"""What the heads of one layer can put out together, over all fillers of a cell: certified.

A cell is a pattern of the support and an interval [first, last] for the number of ones among the
fillers. For head h with weights w and values v, and any point u0_h,

    u_h - u0_h = M_h / D_h,   M_h = sum_t w[t,b_t] (v[t,b_t] - u0_h),   D_h = sum_t w[t,b_t],

[CLS] and the support included. M and D are sums over positions, so that their ranges over a cell
are exact: the best ones are where the gain of a one over a zero is largest. With D_h in
[D_low, D_high] and 1/D0 the middle of the reciprocals,

    u_h - u0_h = M_h / D0_h + R_h,    |R_h| <= |M_h| (1/D_low - 1/D_high) / 2.

The first part is linear in the indicators of the fillers for ALL heads at once: a functional of
the heads side by side is one sum over positions, and heads that move together are bounded
together. (Bounding head by head is sound too, but loses a factor of ten in trained models, whose
heads all follow the number of ones.) The second part is small where D varies little; cutting cells
by the number of ones makes it so.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capax.decompile.balls import ETA, UP, Ball, U, gamma
from capax.decompile.head_tables import HeadTables

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cells:
    """Patterns `rows` [R] of the support with `first` <= ones among the fillers <= `last`."""

    support: tuple[int, ...]
    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, chosen: np.ndarray) -> "Cells":
        """Some of the cells."""
        return Cells(self.support, self.rows[chosen], self.first[chosen], self.last[chosen])


@dataclass(frozen=True)
class HeadSets:
    """The head outputs U (H k numbers) over each cell: U = `centre` + linear part + `rest`."""

    tables: HeadTables
    cells: Cells

    @cached_property
    def free(self) -> np.ndarray:
        """The positions of the fillers."""
        taken = np.asarray(self.cells.support, np.int64)
        return np.delete(np.arange(self.tables.T), taken)

    @cached_property
    def centre(self) -> np.ndarray:
        """u0: the head outputs at the average filler, [R, H, k]; any point would do."""
        w, v = self.tables.weights.mid, self.tables.values.mid
        count = (self.cells.first + self.cells.last) / 2 / max(1, len(self.free))  # [R]
        share = np.stack([1 - count, count], axis=1)  # [R, 2]
        mean = np.einsum("hta,ra->rh", w[:, self.free], share)
        top = np.einsum("hta,htak,ra->rhk", w[:, self.free], v[:, self.free], share)
        w_fix, v_fix = self._fixed
        mass = w_fix.mid.sum(2) + mean  # [R, H]
        return (np.einsum("rhs,rhsk->rhk", w_fix.mid, v_fix.mid) + top) / mass[:, :, None]

    @cached_property
    def _fixed(self) -> tuple[Ball, Ball]:
        """Weights [R, H, s+1] and values [R, H, s+1, k] of the support at its pattern and [CLS]."""
        t, places = self.tables, np.asarray(self.cells.support, np.int64)
        bits = (self.cells.rows[:, None] >> np.arange(len(places)) & 1).astype(np.int64)
        R = len(self.cells)

        def gathered(table: np.ndarray, cls: np.ndarray) -> np.ndarray:
            chosen = np.moveaxis(table[:, places, bits], 1, 0)  # [R, H, s, ...]
            return np.concatenate([chosen, np.broadcast_to(cls[None], (R, *cls.shape))], axis=2)

        w, v = t.weights, t.values
        weights = (
            gathered(x, y[:, None])
            for x, y in ((w.mid, t.cls_weight.mid), (w.rad, t.cls_weight.rad))
        )
        values = (
            gathered(x, y[:, None]) for x, y in ((v.mid, t.cls_value.mid), (v.rad, t.cls_value.rad))
        )
        return Ball(*weights), Ball(*values)

    @cached_property
    def denominators(self) -> Pair:
        """Ranges of D, [R, H]."""
        w = self.tables.weights[:, self.free]  # [H, F, 2]
        terms = Ball(np.moveaxis(w.mid, 0, 2)[None], np.moveaxis(w.rad, 0, 2)[None])
        low, high = self.totals(terms, self._fixed[0].sum(2))
        least = np.maximum(self._fixed[0].low, 0.0).sum(2) / UP
        return np.maximum(low, least), high

    @cached_property
    def moves(self) -> tuple[Ball, Ball]:
        """w (v - u0): of the fillers [R, F, 2, H k], and of the fixed tokens [R, H k]."""
        t, u0 = self.tables, Ball.exact(self.centre)
        R, H, k = self.centre.shape
        w, v = t.weights[:, self.free], t.values[:, self.free]
        lifted = Ball(w.mid[None, ..., None], w.rad[None, ..., None]) * (
            Ball(v.mid[None], v.rad[None])
            - Ball(u0.mid[:, :, None, None], u0.rad[:, :, None, None])
        )  # [R, H, F, 2, k]
        moved = lifted.moved(1, 3)  # [R, F, 2, H, k]
        w_fix, v_fix = self._fixed
        fixed = Ball(w_fix.mid[..., None], w_fix.rad[..., None]) * (
            v_fix - Ball(u0.mid[:, :, None], u0.rad[:, :, None])
        )
        shape = (R, len(self.free), 2, H * k)
        return moved.reshape(*shape), fixed.sum(2).reshape(R, H * k)

    @cached_property
    def linear(self) -> tuple[Ball, Ball, np.ndarray]:
        """(moves / D0, fixed moves / D0, bound of |R_h| for each coordinate [R, H k]).

        A head output is a mean of values, so |u - u0| <= max |v - u0| whatever the weights: where
        that is the better bound (D may almost vanish), 1/D0 is taken to be 0.
        """
        low, high = self.denominators
        k = self.centre.shape[2]
        low, high = np.repeat(low, k, axis=1), np.repeat(high, k, axis=1)  # [R, H k]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            half = (1 / low - 1 / high) / 2 * UP + 8 * U / low
            free, fixed = self.moves
            bottom, top = self.totals(free, fixed)
            rest = np.maximum(np.abs(bottom), np.abs(top)) * half * UP + ETA
            middle = (1 / low + 1 / high) / 2
        hull = self._hull
        useless = ~(rest < hull)
        rest, middle = np.where(useless, hull, rest), np.where(useless, 0.0, middle)
        factor = Ball.exact(middle)
        scaled = free * Ball(factor.mid[:, None, None], factor.rad[:, None, None])
        return scaled, fixed * factor, rest

    @property
    def _hull(self) -> np.ndarray:
        """max |v - u0| over the tokens that can occur, [R, H k]."""
        v, (_, v_fix) = self.tables.values[:, self.free], self._fixed
        R, H, k = self.centre.shape
        top = np.maximum(v.high.max((1, 2), initial=-np.inf)[None], v_fix.high.max(2))
        bottom = np.minimum(v.low.min((1, 2), initial=np.inf)[None], v_fix.low.min(2))
        far = np.maximum(np.abs(top - self.centre), np.abs(bottom - self.centre))
        return (far * UP + ETA).reshape(R, H * k)

    def ranges(self, directions: Ball) -> Pair:
        """(low, high) [R, g] of (U - u0) . D over each cell, for directions D [R or 1, H k, g]."""
        free, fixed, rest = self.linear
        R, F, _, n = free.mid.shape
        terms = free.reshape(R, F * 2, n) @ directions
        ends = (fixed.reshape(R, 1, n) @ directions)[:, 0]
        low, high = self.totals(terms.reshape(R, F, 2, terms.mid.shape[2]), ends)
        slack = (rest[:, None, :] @ (np.abs(directions.mid) + directions.rad))[:, 0] * UP + ETA
        return low - slack - U * np.abs(low), high + slack + U * np.abs(high)

    def totals(self, terms: Ball, fixed: Ball) -> Pair:
        """Range of fixed + sum_t terms[t, b_t] over the cell: terms [R or 1, F, 2, g]."""
        high = _largest(terms.high, self.cells) + fixed.high
        low = -_largest(-terms.low, self.cells) + fixed.low
        return low - 2 * U * np.abs(low) - ETA, high + 2 * U * np.abs(high) + ETA


def _largest(terms: np.ndarray, cells: Cells) -> np.ndarray:
    """An upper bound of max sum_t terms[t, b_t] with first <= sum b <= last: [R, g]."""
    zero, gain = terms[:, :, 0], terms[:, :, 1] - terms[:, :, 0]  # [R or 1, F, g]
    F = terms.shape[1]
    size = np.abs(terms).sum((1, 2))
    slack = 4 * gamma(2 * F + 4) * size * UP + ETA
    if F == 0 or ((cells.first == 0) & (cells.last == F)).all():
        best = np.maximum(terms[:, :, 0], terms[:, :, 1]).sum(1)
        return np.broadcast_to(best + slack, (len(cells), best.shape[1]))
    ordered = -np.sort(-gain, axis=1)
    running = np.concatenate([np.zeros_like(ordered[:, :1]), np.cumsum(ordered, axis=1)], axis=1)
    ones = (gain > 0).sum(1)  # [R or 1, g]
    ones = np.clip(ones, cells.first[:, None], cells.last[:, None])  # [R, g]
    running = np.broadcast_to(running, (len(cells), *running.shape[1:]))
    taken = np.take_along_axis(running, ones[:, None, :], axis=1)[:, 0]
    return zero.sum(1) + taken + slack
