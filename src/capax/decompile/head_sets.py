"""What the heads of one layer can put out together, over all fillers of a cell: certified.

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

from capax.decompile.balls import ETA, UP, Ball, U, gamma
from capax.decompile.head_tables import HeadTables

Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cells:
    """Patterns `rows` [R] of the positions `fixed`, `first` <= ones among the others <= `last`."""

    fixed: tuple[int, ...]
    rows: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, chosen: np.ndarray) -> "Cells":
        """Some of the cells."""
        return Cells(self.fixed, self.rows[chosen], self.first[chosen], self.last[chosen])


@dataclass(frozen=True)
class HeadSets:
    """The head outputs U (H k numbers) over each cell: U = `centre` + linear part + `rest`."""

    tables: HeadTables
    cells: Cells

    @cached_property
    def free(self) -> np.ndarray:
        """The positions of the fillers."""
        return np.delete(np.arange(self.tables.T), np.asarray(self.cells.fixed, np.int64))

    @cached_property
    def centre(self) -> np.ndarray:
        """u0: the head outputs at the average filler, [R, H, k]; any point would do."""
        w, v = self.tables.weights.mid[:, self.free], self.tables.values.mid[:, self.free]
        count = (self.cells.first + self.cells.last) / 2 / max(1, len(self.free))
        share = np.stack([1 - count, count], axis=1)  # [R, 2]
        sums, tops = w.sum(1), (w[..., None] * v).sum(1)  # [H, 2], [H, 2, k]
        w_fix, v_fix = self._fixed
        mass = w_fix.mid.sum(2) + share @ sums.T  # [R, H]
        top = np.einsum("rhs,rhsk->rhk", w_fix.mid, v_fix.mid)
        top = top + np.einsum("hak,ra->rhk", tops, share)
        return top / np.maximum(mass, ETA)[:, :, None]

    @cached_property
    def _fixed(self) -> tuple[Ball, Ball]:
        """Weights [R, H, s+1], values [R, H, s+1, k] of the fixed positions and, last, of [CLS]."""
        t, places = self.tables, np.asarray(self.cells.fixed, np.int64)
        bits = (self.cells.rows[:, None] >> np.arange(len(places)) & 1).astype(np.int64)
        R = len(self.cells)

        def gathered(table: np.ndarray, cls: np.ndarray) -> np.ndarray:
            chosen = np.moveaxis(table[:, places, bits], 1, 0)  # [R, H, s, ...]
            ends = np.broadcast_to(cls[None, :, None], (R, len(cls), 1, *cls.shape[1:]))
            return np.concatenate([chosen, ends], axis=2)

        w, v, w_cls, v_cls = t.weights, t.values, t.cls_weight, t.cls_value
        weights = Ball(gathered(w.mid, w_cls.mid), gathered(w.rad, w_cls.rad))
        return weights, Ball(gathered(v.mid, v_cls.mid), gathered(v.rad, v_cls.rad))

    @cached_property
    def denominators(self) -> Pair:
        """Ranges of D, [R, H]; the lower ends may be 0 where weights underflow."""
        w = self.tables.weights[:, self.free]  # [H, F, 2]
        low, high = extremes(w.mid[None], self.cells)
        fixed = self._fixed[0].sum(2)
        slack = _sums_slack(w.mid[None]) + w.rad.max(2).sum(1)[None] * UP
        least = np.maximum(self._fixed[0].low, 0.0).sum(2) / UP
        return (
            np.maximum(_down(low - slack + fixed.low), least),
            _up(high + slack + fixed.high),
        )

    @cached_property
    def linear(self) -> "_Linear":
        """The linear part of U - u0 and a bound of the rest."""
        t, R, H, k = self.tables, *self.centre.shape
        u0 = Ball.exact(self.centre)
        w, v = t.weights[:, self.free], t.values[:, self.free]
        moves = _lift(w, 1) * (
            _lift(v, 0) - Ball(u0.mid[:, :, None, None], u0.rad[:, :, None, None])
        )
        w_fix, v_fix = self._fixed
        fixed = Ball(w_fix.mid[..., None], w_fix.rad[..., None]) * (
            v_fix - Ball(u0.mid[:, :, None], u0.rad[:, :, None])
        )
        fixed = fixed.sum(2)  # [R, H, k]
        factor, rest = self._factor(moves, fixed)
        scaled = moves * Ball.exact(factor[:, :, None, None, None])
        ends = fixed * Ball.exact(factor[:, :, None])
        return _Linear.of(scaled.moved(4, 2), ends.reshape(R, H * k), rest.reshape(R, H * k))

    def _factor(self, moves: Ball, fixed: Ball) -> Pair:
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
            half = (1 / low - 1 / high) / 2 * UP + 8 * U / low
            rest = np.maximum(np.abs(bottom), np.abs(top)) * half[:, :, None] * UP + ETA
            middle = (1 / low + 1 / high) / 2
        hull = self._hull
        useless = ~(rest < hull).all(2)
        rest = np.where(useless[:, :, None], hull, rest)
        return np.where(useless, 0.0, middle), rest

    @property
    def _hull(self) -> np.ndarray:
        """max |v - u0| over the tokens that can occur, [R, H, k]."""
        v, (_, v_fix) = self.tables.values[:, self.free], self._fixed
        top = np.maximum(v.high.max((1, 2), initial=-np.inf)[None], v_fix.high.max(2))
        bottom = np.minimum(v.low.min((1, 2), initial=np.inf)[None], v_fix.low.min(2))
        far = np.maximum(np.abs(top - self.centre), np.abs(bottom - self.centre))
        return far * UP + ETA

    def ranges(self, directions: Ball) -> Pair:
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
        slack = slack * UP + ETA
        return _down(low - slack + ends.low), _up(high + slack + ends.high)


@dataclass(frozen=True)
class _Linear:
    """moves / D0 of the fillers [R, H k, F, 2] and of the fixed tokens, and what is left over.

    Over a cell the moves add up to at most `length` in norm, known up to `doubt` (rounding of their
    sums included).
    """

    moves: np.ndarray
    ends: Ball
    rest: np.ndarray
    doubt: np.ndarray
    length: np.ndarray

    @staticmethod
    def of(scaled: Ball, ends: Ball, rest: np.ndarray) -> "_Linear":
        R, H, k, F, _ = scaled.mid.shape
        mid, rad = (x.reshape(R, H * k, F, 2) for x in (scaled.mid, scaled.rad))
        length = _norm(mid).max(2, initial=0.0).sum(1) * UP  # [R]
        doubt = _norm(rad).max(2, initial=0.0).sum(1) * UP
        # each term is a sum of H k products, then 2 F of them are added and subtracted
        rounding = (gamma(H * k + 1) + 8 * gamma(2 * F + 4)) * length
        return _Linear(mid, ends, rest, doubt + rounding, length)


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
    return np.sqrt((x * x).sum(1)) * UP + ETA


def _lift(x: Ball, axes: int) -> Ball:
    """A table with a leading axis for the cells, and `axes` more behind."""
    index = (None, ..., *[None] * axes)
    return x[index]


def _up(x: np.ndarray) -> np.ndarray:
    return x + 4 * U * np.abs(x) + ETA


def _down(x: np.ndarray) -> np.ndarray:
    return x - 4 * U * np.abs(x) - ETA
