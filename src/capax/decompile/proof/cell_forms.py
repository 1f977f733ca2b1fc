"""The logit over one cell, in plain float64: how a proof of a trained network is found.

The formulas are those of `capax.proving.capax_check` (`Leaf`), which checks every leaf again in
integers; nothing here is rounded outward, and nothing is believed. A form is a column: its value
where all free bits are 0, what a one adds at each free position, then factors of noise in [-1, 1].
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.decompile.proof.table_forward import activated

GRID = 1 << 10
"""Slopes are multiples of 1/GRID."""
ALONE = 0.5
"""Where D varies more than this, the range of a head by itself is better than its linear part."""
POINTS = 33
HALVINGS = 36
"""Of the range of a head, to find its ends; a third of them inside the range of a larger cell."""


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


def covered(layer: OneQueryLayer) -> bool:
    """Whether the layer has the form of our Transformers, which proof files are about."""
    norms = layer.norm is not None and layer.final is not None
    return norms and layer.kept == "residual" and layer.pooler is None


@dataclass(frozen=True)
class FloatCell:
    """Fixed bits, and limits: sums over tokens [2 T + 1] that are at most 0 on the cell."""

    T: int
    fixed: dict[int, int]
    given: tuple[np.ndarray, ...] = ()

    @cached_property
    def free(self) -> np.ndarray:
        return np.array([t for t in range(self.T) if t not in self.fixed], np.int64)

    @cached_property
    def limits(self) -> list[np.ndarray]:
        return [self.form(terms[:, None])[:, 0] for terms in self.given]

    def form(self, terms: np.ndarray) -> np.ndarray:
        """Forms [1 + F, g] of sums of terms [2 T + 1, g]."""
        there = [2 * t + self.fixed.get(t, 0) for t in range(self.T)]
        start = terms[there].sum(0) + terms[-1]
        return np.concatenate([start[None], terms[2 * self.free + 1] - terms[2 * self.free]])

    def most(self, forms: np.ndarray) -> np.ndarray:
        """The checker's upper end of each column."""
        for limit in self.limits:
            a, b = forms[1:], limit[1:, None]
            over = limit[0] + (b * (a > 0)).sum(0)
            hot = np.flatnonzero(over > 0)
            if not len(hot) or not len(a):
                continue
            a = a[:, hot]
            with np.errstate(all="ignore"):
                turns = np.where(a * b > 0, a / b, np.inf)
            order = np.argsort(turns, axis=0)
            left = over[hot] - np.cumsum(np.abs(limit[1:])[order], axis=0)
            at = np.argmax(left <= 0, axis=0)
            turn = np.take_along_axis(np.take_along_axis(turns, order, 0), at[None], 0)[0]
            usable = (left[at, np.arange(len(hot))] <= 0) & np.isfinite(turn)
            forms = forms.copy()
            forms[:, hot[usable]] -= turn[usable] * limit[:, None]
        return forms[0] + np.maximum(forms[1:], 0).sum(0)

    def ends(self, forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest value of each column; noise behind the gains."""
        F = 1 + len(self.free)
        noise = np.abs(forms[F:]).sum(0)
        return -self.most(-forms[:F]) - noise, self.most(forms[:F]) + noise


@dataclass
class CellBound:
    """The bound of one cell: hints u, far, D, and `least`, about sign logit - margin."""

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
            self._heads()
            self._logit()
        if not np.isfinite(self.least):
            self.least = -np.inf

    def _head_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends of u over the cell: where the largest sum of w (v - level) changes its sign."""
        w, v, found = self.read.w, self.read.v, []
        before = (
            (v.min(0), v.max(0)) if self.around is None else (self.around.low, self.around.high)
        )
        for sign in (-1, 1):
            low, high = np.sort([sign * before[0], sign * before[1]], axis=0)
            holds = self.cell.most(self.cell.form(w * (sign * v - high))) <= 0
            high = np.where(holds, high, (sign * v).max(0))  # multipliers may do worse on a part
            for _ in range(HALVINGS if self.around is None else HALVINGS // 3):
                level = (low + high) / 2
                holds = self.cell.most(self.cell.form(w * (sign * v - level))) <= 0
                low, high = np.where(holds, low, level), np.where(holds, level, high)
            found.append(sign * high)
        return found[0], found[1]

    def _heads(self) -> None:
        """u as forms, the leaks as noise."""
        read, cell = self.read, self.cell
        D_low, D_high = cell.ends(cell.form(read.w[:, :: read.k]))
        alone = (D_high - D_low) / (D_high + D_low) > ALONE
        self.u = np.round((self.low + self.high) / 2, 6)
        self.far = np.maximum(self.high - self.u, self.u - self.low) * (1 + 1e-6) + 1e-8
        self.D = np.where(alone, 1e12, 0.5) * (D_low + D_high)
        leak = np.maximum(1 - D_low / self.D, D_high / self.D - 1)
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
        self.least = float(cell.ends(self.claim[:, None])[0][0] - abs(t) * err) / high

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
