"""The outputs of all heads of one layer together, over all fillers of a cell: certified ranges.

A cell is a pattern of some fixed positions and an interval [first, last] for the number of ones
among the other bits, the fillers. For head h with weights w and values v, and any point u0_h,

    u_h - u0_h = M_h / D_h,   M_h = sum_t w[t,b_t] (v[t,b_t] - u0_h),   D_h = sum_t w[t,b_t],

[CLS] and the fixed positions included. M and D are sums over positions, so that their ranges over a
cell are exact: the best ones are where the gain of a one over a zero is largest. With D_h in
[D_low, D_high] and 1/D0 the middle of the reciprocals,

    u_h - u0_h = M_h / D0_h + R_h,    |R_h| <= |M_h| (1/D_low - 1/D_high) / 2.

The first part is linear in the indicators of the fillers for ALL heads at once: a functional of
the heads side by side is one sum over positions, and heads that move together are bounded
together. (Bounding head by head is sound too, but loses a factor of ten in trained models, whose
heads all follow the number of ones.) The second part is small where D varies little; fixing
positions of large weight, and cutting by the number of ones, make it so.

Radii (Cauchy and Schwarz): a . q with a known to alpha and q to rho in Euclidean norm is known to
alpha (|q| + rho) + |a| rho; one number for each position, summed over positions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.decompile.proof.layer_tables import LayerTables
from capax.rounding import TINY, UNIT, UP, gamma, lowered, raised

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cells:
    """R cells: pattern `rows` [R] of the positions `fixed` [R, s], `first` <= ones among the other
    positions <= `last`."""

    fixed: np.ndarray
    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray

    @staticmethod
    def at(
        places: tuple[int, ...], rows: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> "Cells":
        """Cells with the same fixed positions."""
        fixed = np.broadcast_to(np.asarray(places, np.int64), (len(rows), len(places)))
        return Cells(fixed, rows, first, last)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, chosen: np.ndarray) -> "Cells":
        """Some of the cells."""
        return Cells(*(x[chosen] for x in (self.fixed, self.rows, self.first, self.last)))


@dataclass(frozen=True)
class HeadSets:
    """The head outputs U (H k numbers) over each cell: U = `centre` + linear part + `rest`."""

    tables: LayerTables
    cells: Cells

    @cached_property
    def free(self) -> np.ndarray:
        """The positions of the fillers, [R, F]."""
        R, s = self.cells.fixed.shape
        other = np.ones((R, self.tables.T), bool)
        other[np.arange(R)[:, None], self.cells.fixed] = False
        return np.nonzero(other)[1].reshape(R, self.tables.T - s)

    @cached_property
    def fillers(self) -> tuple[Enclosed, Enclosed]:
        """Weights [R, H, F, 2] and values [R, H, F, 2, k] of the fillers."""
        weights, values = self.tables.weights[0], self.tables.heads.values
        return weights[:, self.free].moved(0, 1), values[:, self.free].moved(0, 1)

    @cached_property
    def centre(self) -> np.ndarray:
        """u0: the head outputs at the average filler, [R, H, k]; any point would do."""
        w, v = (x.mid for x in self.fillers)
        count = (self.cells.first + self.cells.last) / 2 / max(1, w.shape[2])
        share = np.stack([1 - count, count], axis=1)  # [R, 2]
        w_fix, v_fix = self._fixed
        mass = w_fix.mid.sum(2) + np.einsum("rhfa,ra->rh", w, share)
        top = np.einsum("rhs,rhsk->rhk", w_fix.mid, v_fix.mid)
        top = top + np.einsum("rhfa,rhfak,ra->rhk", w, v, share, optimize=True)
        return top / np.maximum(mass, TINY)[:, :, None]

    @cached_property
    def _fixed(self) -> tuple[Enclosed, Enclosed]:
        """Weights [R, H, s+1], values [R, H, s+1, k] of the fixed positions and, last, of [CLS]."""
        t, places = self.tables, self.cells.fixed
        bits = (self.cells.rows[:, None] >> np.arange(places.shape[1]) & 1).astype(np.int64)
        R = len(self.cells)

        def gathered(table: np.ndarray, cls: np.ndarray) -> np.ndarray:
            chosen = np.moveaxis(table[:, places, bits], 1, 0)  # [R, H, s, ...]
            ends = np.broadcast_to(cls[None, :, None], (R, len(cls), 1, *cls.shape[1:]))
            return np.concatenate([chosen, ends], axis=2)

        (w, w_cls), v, v_cls = t.weights, t.heads.values, t.heads.cls_value
        weights = Enclosed(gathered(w.mid, w_cls.mid), gathered(w.rad, w_cls.rad))
        return weights, Enclosed(gathered(v.mid, v_cls.mid), gathered(v.rad, v_cls.rad))

    @cached_property
    def denominators(self) -> Pair:
        """Ranges of D, [R, H]; the lower ends may be 0 where weights underflow."""
        w, _ = self.fillers
        low, high = extremes(w.mid, self.cells)
        fixed = self._fixed[0].sum(2)
        slack = _sums_slack(w.mid) + w.rad.max(3).sum(2) * UP
        least = np.maximum(self._fixed[0].low, 0.0).sum(2) / UP
        return (
            np.maximum(lowered(low - slack + fixed.low), least),
            raised(high + slack + fixed.high),
        )

    @cached_property
    def linear(self) -> "_LinearForm":
        """The linear part of U - u0 and a bound of the rest."""
        R, H, k = self.centre.shape
        u0 = exactly(self.centre)
        w, v = self.fillers
        moves = w[..., None] * (v - u0[:, :, None, None])
        w_fix, v_fix = self._fixed
        fixed = w_fix[..., None] * (v_fix - u0[:, :, None])
        fixed = fixed.sum(2)  # [R, H, k]
        factor, rest = self._reciprocals(moves, fixed)
        scaled = moves * exactly(factor[:, :, None, None, None])
        ends = fixed * exactly(factor[:, :, None])
        return _LinearForm.of(scaled.moved(4, 2), ends.reshape(R, H * k), rest.reshape(R, H * k))

    def _reciprocals(self, moves: Enclosed, fixed: Enclosed) -> Pair:
        """1/D0 [R, H] and the bound of |R_h| [R, H, k].

        A head output is a mean of values, so |u - u0| <= max |v - u0| whatever the weights: where
        that is the better bound (D may almost vanish), 1/D0 is taken to be 0.
        """
        low, high = self.denominators
        sums = moves.moved(4, 2)  # [R, H, k, F, 2]
        R, H, k, F, _ = sums.mid.shape
        bottom, top = extremes(sums.mid.reshape(R, H * k, F, 2), self.cells)
        slack = _sums_slack(sums.mid) + sums.rad.max(4).sum(3) * UP
        bottom = bottom.reshape(R, H, k) - slack + fixed.low
        top = top.reshape(R, H, k) + slack + fixed.high
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            half = (1 / low - 1 / high) / 2 * UP + 8 * UNIT / low
            rest = np.maximum(np.abs(bottom), np.abs(top)) * half[:, :, None] * UP + TINY
            middle = (1 / low + 1 / high) / 2
        hull = self._hull
        useless = ~(rest < hull).all(2)
        rest = np.where(useless[:, :, None], hull, rest)
        return np.where(useless, 0.0, middle), rest

    @property
    def _hull(self) -> np.ndarray:
        """max |v - u0| over the tokens that can occur, [R, H, k]."""
        (_, v), (_, v_fix) = self.fillers, self._fixed
        top = np.maximum(v.high.max((2, 3), initial=-np.inf), v_fix.high.max(2))
        bottom = np.minimum(v.low.min((2, 3), initial=np.inf), v_fix.low.min(2))
        far = np.maximum(np.abs(top - self.centre), np.abs(bottom - self.centre))
        return far * UP + TINY

    def ranges(self, directions: Enclosed) -> Pair:
        """(low, high) [R, g] of (U - u0) . D over each cell, for directions D [R or 1, H k, g]."""
        part = self.linear
        d = np.swapaxes(directions.mid, 1, 2)  # [R or 1, g, H k]
        R, n, F, _ = part.moves.shape
        terms = (d @ part.moves.reshape(R, n, F * 2)).reshape(R, d.shape[1], F, 2)
        low, high = extremes(terms, self.cells)
        ends = (part.ends.reshape(R, 1, n) @ directions)[:, 0]
        size, off = _norm(directions.mid), _norm(directions.rad)  # [R or 1, g]
        slack = part.doubt[:, None] * (size + off) + part.length[:, None] * off
        slack = slack + ((np.abs(directions.mid) + directions.rad) * part.rest[:, :, None]).sum(1)
        slack = slack * UP + TINY
        return lowered(low - slack + ends.low), raised(high + slack + ends.high)


@dataclass(frozen=True)
class _LinearForm:
    """moves / D0 of the fillers [R, H k, F, 2] and of the fixed tokens, and a bound of the rest.

    Over a cell the moves add up to at most `length` in norm, known up to `doubt` (rounding of their
    sums included).
    """

    moves: np.ndarray
    ends: Enclosed
    rest: np.ndarray
    doubt: np.ndarray
    length: np.ndarray

    @staticmethod
    def of(scaled: Enclosed, ends: Enclosed, rest: np.ndarray) -> "_LinearForm":
        R, H, k, F, _ = scaled.mid.shape
        mid, rad = (x.reshape(R, H * k, F, 2) for x in (scaled.mid, scaled.rad))
        length = _norm(mid).max(2, initial=0.0).sum(1) * UP  # [R]
        doubt = _norm(rad).max(2, initial=0.0).sum(1) * UP
        # each term is a sum of H k products, then 2 F of them are added and subtracted
        rounding = (gamma(H * k + 1) + 8 * gamma(2 * F + 4)) * length
        return _LinearForm(mid, ends, rest, doubt + rounding, length)


def extremes(terms: np.ndarray, cells: Cells) -> Pair:
    """min and max [R, g] of sum_t terms[t, b_t], first <= sum b <= last; terms [R or 1, g, F, 2].

    Floating point: off by at most 4 gamma_{2F+4} sum_t (|terms[t,0]| + |terms[t,1]|).
    """
    zero, one = terms[..., 0], terms[..., 1]
    F, R = terms.shape[2], len(cells)
    if F == 0 or ((cells.first == 0) & (cells.last == F)).all():
        ends = np.minimum(zero, one).sum(2), np.maximum(zero, one).sum(2)
        return tuple(np.broadcast_to(e, (R, e.shape[1])) for e in ends)  # type: ignore[return-value]
    gain = np.sort(one - zero, axis=2)  # ascending
    start = zero.sum(2)
    up = np.concatenate([np.zeros_like(start)[..., None], np.cumsum(gain[..., ::-1], axis=2)], 2)
    down = np.concatenate([np.zeros_like(start)[..., None], np.cumsum(gain, axis=2)], 2)
    most, least = (gain > 0).sum(2), (gain < 0).sum(2)

    def taken(running: np.ndarray, ones: np.ndarray) -> np.ndarray:
        count = np.clip(ones, cells.first[:, None], cells.last[:, None])  # [R, g]
        running = np.broadcast_to(running, (R, *running.shape[1:]))
        return start + np.take_along_axis(running, count[:, :, None], axis=2)[:, :, 0]

    return taken(down, least), taken(up, most)


def _sums_slack(terms: np.ndarray) -> np.ndarray:
    """Rounding of `extremes` along the last two axes."""
    F = terms.shape[-2]
    return 8 * gamma(2 * F + 4) * np.abs(terms).sum((-2, -1)) * UP


def _norm(x: np.ndarray) -> np.ndarray:
    """Euclidean norm along axis 1, rounded up."""
    return np.sqrt((x * x).sum(1)) * UP + TINY
