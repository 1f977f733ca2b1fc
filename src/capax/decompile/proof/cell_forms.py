"""The logit over one cell, in plain float64: how a proof of a trained network is found.

The formulas are those of `capax.proving.capax_check` (`Leaf`), which checks every leaf again in
integers; nothing here is rounded outward, and nothing is believed. A form is a column: its value
where all free bits are 0, what a one adds at each free position, then factors of noise in [-1, 1].
"""

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from capax.decompile.proof.float_cell import FloatCell
from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.decompile.proof.table_forward import activated

GRID = 1 << 10
"""Slopes are multiples of 1/GRID."""
ALONE = 0.5
"""Where D varies more than this, the range of a head by itself is better than its linear part."""
SCALES = (1.0, 1.3, 1e12)
"""D0 as a multiple of the middle of the range of D; the last one: the head by its range alone."""
TUNED = 8
"""Heads of a cell whose D0 is tuned, those with the most noise first."""
SMALL = 0.15
"""Heads with less than this share of the largest noise are not tuned."""
CHEAP = 3.0
"""A part without limits that misses more is cut at once: that costs less than to tune it."""
POINTS = 33
STEPS = 8
"""To find the ends of a head; half of them inside the range of a larger cell."""


def centred(x: np.ndarray) -> np.ndarray:
    """Minus the mean along the last axis."""
    return x - x.mean(-1, keepdims=True)


@dataclass(frozen=True)
class ReadOut:
    """A layer whose tables are laid out token by token, and everything behind the heads, folded."""

    layer: OneQueryLayer

    @cached_property
    def w(self) -> np.ndarray:
        """Weights [2 T + 1, H k]: token 2 t + b is bit b at position t, the last one is [CLS]."""
        tokens, cls = (x.mid for x in self.layer.tables.weights)
        found = np.concatenate([tokens.reshape(len(tokens), -1), cls[:, None]], 1).T
        return np.repeat(found / found.max(0), self.k, axis=1)

    @cached_property
    def v(self) -> np.ndarray:
        """Values [2 T + 1, H k]."""
        heads = self.layer.tables.heads
        tokens = heads.values.mid
        H, T, symbols, k = tokens.shape
        found = tokens.transpose(1, 2, 0, 3).reshape(T * symbols, H * k)
        return np.concatenate([found, heads.cls_value.mid.reshape(1, -1)])

    @property
    def k(self) -> int:
        return self.layer.tables.heads.cls_value.mid.shape[1]

    @cached_property
    def C_O(self) -> np.ndarray:
        return centred(self.layer.tables.W_O.mid)

    @cached_property
    def G(self) -> np.ndarray:
        """h = G c/s + shift."""
        assert self.layer.norm is not None
        return self.layer.norm.gain[:, None] * self.layer.W_in

    @cached_property
    def shift(self) -> np.ndarray:
        assert self.layer.norm is not None
        return self.layer.norm.bias @ self.layer.W_in + self.layer.b_in

    @cached_property
    def C_out(self) -> np.ndarray:
        return centred(self.layer.W_out)

    @cached_property
    def last(self) -> np.ndarray:
        assert self.layer.final is not None
        return self.layer.final.gain * self.layer.w.mid

    @cached_property
    def rho(self) -> float:
        assert self.layer.final is not None
        return float(self.layer.final.bias @ self.layer.w.mid + self.layer.b.mid)


@dataclass
class CellBound:
    """The bound of one cell: hints u, far, D, and `least`, about sign logit - margin.

    `missing`: how far the claim, sign logit - margin times the last root, may be below 0.
    """

    read: ReadOut
    cell: FloatCell
    sign: float
    margin: float = 0.0
    around: "CellBound | None" = None
    """The bound of a cell that holds this one."""
    least: float = field(init=False, default=-np.inf)

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            self.low, self.high = self._head_ends()
            self.D_low, self.D_high = self.cell.ends(self.cell.form(self.read.w[:, :: self.read.k]))
            self.wide_D = (self.D_high - self.D_low) / (self.D_high + self.D_low) > ALONE
        scales = np.where(self.wide_D, SCALES[-1], 1.0)
        if self.around is not None:  # tuned before; a head that got narrow starts again
            scales = np.where(self.around.wide_D & ~self.wide_D, 1.0, self.around.scales)
        self._evaluate(scales)

    def _evaluate(self, scales: np.ndarray) -> None:
        """The bound with these multiples of the middle of D [H]."""
        self.scales = scales
        with np.errstate(all="ignore"):
            self._heads()
            self._logit()
        if not np.isfinite(self.least):
            self.least, self.missing = -np.inf, np.inf

    def with_margin(self, margin: float) -> "CellBound":
        """The same hints for another margin."""
        other = copy(self)
        other.margin = margin
        other._evaluate(self.scales)
        return other

    def _keep_better(self, scales: np.ndarray) -> None:
        other = copy(self)
        other._evaluate(scales)
        if other.missing < self.missing:
            self.__dict__.update(other.__dict__)

    def tune(self, enough: float) -> None:
        """Choose D0 head by head, until the bound is enough."""
        if self.around is not None and not self.cell.given and self.missing > CHEAP:
            return
        effect = (self.noise * np.linalg.norm(self.read.C_O, axis=1)).reshape(-1, self.read.k)
        noise = effect.sum(1)
        order = np.argsort(-noise, kind="stable")[:TUNED]
        for h in order[noise[order] > SMALL * noise[order[0]]]:
            for scale in SCALES:
                if self.least > enough:
                    return
                if scale != self.scales[h]:
                    here = np.arange(len(self.scales)) == h
                    self._keep_better(np.where(here, scale, self.scales))

    def _head_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of u over the cell: where the largest sum of w (v - level) changes its sign.

        That sum is convex in the level: its tangent meets 0 before its root, a chord behind it.
        """
        v, around, found = self.read.v, self.around, []
        values, weights = (self.cell.form(self.read.w * n) for n in (v, 1.0))
        before = (v.min(0), v.max(0)) if around is None else (around.low, around.high)
        for sign in (-1, 1):

            def most(level: np.ndarray, sign: int = sign) -> np.ndarray:
                forms = self.cell.reduced(sign * values - level * weights)
                slope = weights[0] + (weights[1:] * (forms[1:] > 0)).sum(0)
                return np.array([level, forms[0] + np.maximum(forms[1:], 0).sum(0), slope])

            low, high = (most(end) for end in np.sort([sign * before[0], sign * before[1]], axis=0))
            if (high[1] > 0).any():  # multipliers may do worse on a part
                high = np.where(high[1] <= 0, high, most((sign * v).max(0)))
            for step in range(STEPS if around is None else STEPS // 2):
                share = low[1] / np.maximum(low[1] - high[1], 1e-300)
                chord = low[0] + (high[0] - low[0]) * np.maximum(share, 1e-3)
                level = low[0] + low[1] / low[2] if step % 2 == 0 else chord
                now = most(np.clip(level, low[0], high[0]))
                low, high = np.where(now[1] <= 0, [low, now], [now, high])
            found.append(sign * high[0])
        return np.minimum(*found), np.maximum(*found)

    def _heads(self) -> None:
        """u as forms, the leaks as noise."""
        read, cell = self.read, self.cell
        self.u = np.round((self.low + self.high) / 2, 6)
        room = 1e-4 if cell.given else 1e-6  # the checker's multipliers are rounded
        self.far = np.maximum(self.high - self.u, self.u - self.low) * (1 + room) + 1e-8
        self.D = np.maximum(self.scales * 0.5 * (self.D_low + self.D_high), 1e-9)
        leak = np.maximum(1 - self.D_low / self.D, self.D_high / self.D - 1)
        D = np.repeat(self.D, read.k)
        forms = cell.form(read.w * (read.v - self.u) / D)
        forms[0] += self.u
        self.noise = self.far * np.repeat(leak, read.k)
        self.x = np.concatenate([forms, np.diag(self.noise)]) @ read.C_O
        self.x[0] += centred(read.layer.tables.base.mid)

    def _root(self, forms: np.ndarray) -> tuple[np.ndarray, float, float, float]:
        """V as a form, its err, and its least and largest root."""
        norm, d = self.read.layer.norm, forms.shape[1]
        assert norm is not None
        low, high = self.cell.ends(forms)
        m, r = (low + high) / 2, (high - low) / 2
        form, rest = forms @ (2 * m / d), (r * r).mean() / 2
        form[0] += rest - (m * m).mean() + norm.epsilon
        box = (np.maximum(0, np.abs(m) - r) ** 2).mean() + norm.epsilon
        low, high = self.cell.ends(form[:, None])
        least = max(float(low[0]) - rest, box)
        return form, float(rest), np.sqrt(least), np.sqrt(float(high[0]) + rest)

    def _logit(self) -> None:
        read, layer, cell = self.read, self.read.layer, self.cell
        V, err, low, high = self._root(self.x)
        m = (low * high * (low + high) / 2) ** (1 / 3)
        top = max(1 / s + s * s / (2 * m**3) for s in (low, high))
        r, err = -V / (2 * m**3), err / (2 * m**3) + (top - 1.5 / m) / 2
        r[0] += (top + 1.5 / m) / 2
        R, wide = (1 / low + 1 / high) / 2, (1 / low - 1 / high) / 2
        g = self.x @ read.G
        left, right = cell.ends(g)
        m, far = (left + right) / 2, (right - left) / 2
        self.h = g * R + np.outer(r, m)
        self.h[0] += read.shift - m * R
        off = np.abs(m) * err + far * wide
        left, right = cell.ends(self.h)
        self.wide = (right - left) / 2 + off
        slope, below, above = _lines(layer.activation, left - off, right + off)
        hidden = self.h * slope
        hidden[0] += (below + above) / 2
        self.unit_noise = np.abs(slope) * off + (above - below) / 2
        z = hidden @ read.C_out + self.x
        z[0] += centred(layer.b_out)
        z = np.concatenate([z, self.unit_noise[:, None] * read.C_out])
        V, err, low, high = self._root(z)
        t, m = self.sign * read.rho - self.margin, (low + high) / 2
        bottom = min(s - s * s / (2 * m) for s in (low, high))
        s = V / (2 * m)
        s[0] += (bottom + m / 2) / 2
        err = err / (2 * m) + (m / 2 - bottom) / 2
        self.claim = self.sign * (z @ read.last) + t * s
        bottom = float(cell.ends(self.claim[:, None])[0][0] - abs(t) * err)
        self.least, self.missing = bottom / high, max(0.0, -bottom)

    def influence(self) -> np.ndarray:
        """What each free bit, then each leak, adds to the loss of the bound (a first guess)."""
        F, n = 1 + len(self.cell.free), len(self.u)
        units = np.abs(self.claim[F + n :]) / np.maximum(self.wide, 1e-12)
        return np.abs(self.h[1:]) @ units + np.abs(self.claim[1 : F + n])


def _lines(name: str, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    """Slope (a multiple of 1/GRID) and the range of sigma(h) - slope h on [low, high]."""
    step = np.exp2(np.maximum(0, np.ceil(np.log2((high - low) * GRID / 32)))) / GRID
    a, b = np.floor(low / step) * step, (np.floor(high / step) + 1) * step
    slope = np.floor((activated(name, b) - activated(name, a)) / (b - a) * GRID) / GRID
    points = a[..., None] + (b - a)[..., None] * np.linspace(0, 1, POINTS)
    values = activated(name, points) - slope[..., None] * points
    off = 0.1 * step**2
    return slope, values.min(-1) - off, values.max(-1) + off
