"""The logit over many cells at once, in plain float64: how a proof of a trained network is found.

The formulas are those of `capax.proving.capax_check` (`Leaf`), which checks every leaf
again in integers; nothing here is rounded outward, and nothing is believed. For each cell:

    u - u0 = M/D0 + (u - u0)(1 - D/D0)             each head: a sum over tokens, and a leak
    s = A + c0 . delta/(d s0) + e                  the root in LayerNorm, 0 <= e <= E
    h = eta + shift + (l . delta - eta e)/s        a unit; sigma(h) between two parallel lines
    sign last . Cz + t s_z >= 0                    the claim, t = sign rho - margin

`CellHints` are the numbers that the proof file gives the checker.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capax.decompile.proof.head_sets import HeadSets, extremes
from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.decompile.proof.table_forward import activated

GRID = 1 << 10
"""Slopes are multiples of 1/GRID."""
ALONE = 0.5
"""Where D varies more than this, the range of a head by itself is better than its linear part."""
MAX_FIXED = 60
"""A pattern of fixed positions is an int64."""
AT_COUNT, NOWHERE = -1, -2
POINTS = 33
ROUNDS = 8


def centred(x: np.ndarray) -> np.ndarray:
    """Minus the mean along the last axis."""
    return x - x.mean(-1, keepdims=True)


@dataclass(frozen=True)
class CellHints:
    """u0, far [R, H k], D0 [R, H], slopes [R, n] in units of 1/GRID, z0 [R, d]; the claim's lower
    end divided by the root in the last LayerNorm, about sign logit - margin; where to cut."""

    u: np.ndarray
    far: np.ndarray
    D: np.ndarray
    slopes: np.ndarray
    z: np.ndarray
    least: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class ReadOut:
    """Everything behind the heads, folded: see the formulas above."""

    layer: OneQueryLayer

    @cached_property
    def W_C(self) -> np.ndarray:
        """W_O, centred."""
        return centred(self.layer.tables.W_O.mid)

    @cached_property
    def G(self) -> np.ndarray:
        """h = G c/s + shift."""
        assert self.layer.norm is not None
        return centred((self.layer.norm.gain[:, None] * self.layer.W_in).T).T

    @cached_property
    def shift(self) -> np.ndarray:
        assert self.layer.norm is not None
        return self.layer.norm.bias @ self.layer.W_in + self.layer.b_in

    @cached_property
    def last(self) -> np.ndarray:
        assert self.layer.final is not None
        return centred(self.layer.final.gain * self.layer.w.mid)

    @cached_property
    def rho(self) -> float:
        assert self.layer.final is not None
        return float(self.layer.final.bias @ self.layer.w.mid + self.layer.b.mid)

    @cached_property
    def W_out(self) -> np.ndarray:
        return centred(self.layer.W_out)

    @property
    def epsilon(self) -> float:
        assert self.layer.norm is not None
        return self.layer.norm.epsilon


def covered(layer: OneQueryLayer) -> bool:
    """Whether the layer has the form of our Transformers, which proof files are about."""
    norms = layer.norm is not None and layer.final is not None
    return norms and layer.kept == "residual" and layer.pooler is None


def _threshold(gain: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The `count`-th largest gain along the last axis; infinite for 0."""
    ordered = np.sort(gain, axis=-1)
    at = np.clip(gain.shape[-1] - count, 0, gain.shape[-1] - 1)
    found = np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0]
    return np.where(count > 0, found, np.inf)


def _ends(sets: HeadSets, u0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of u - u0 over the cell [R, H, k]: Dinkelbach's rounds."""
    w, v = (x.mid for x in sets.fillers)
    w_fix, v_fix = (x.mid for x in sets._fixed)
    F = w.shape[2]
    v, v_fix = np.moveaxis(v, 4, 2), np.moveaxis(v_fix, 3, 2)  # [R, H, k, F, 2], [R, H, k, s + 1]
    w, w_fix = w[:, :, None], w_fix[:, :, None]
    first, last = (x[:, None, None] for x in (sets.cells.first, sets.cells.last))
    whole = bool(((sets.cells.first == 0) & (sets.cells.last == F)).all())
    found = []
    for sign in (1, -1):
        level = np.zeros(u0.shape)
        move, move_fix = sign * (v - u0[..., None, None]), sign * (v_fix - u0[..., None])
        for _ in range(ROUNDS):
            terms = w * (move - level[..., None, None])
            gain = terms[..., 1] - terms[..., 0]
            one = gain > 0
            if not whole:
                one = gain >= _threshold(gain, np.clip(one.sum(-1), first, last))[..., None]
            mass = np.where(one, w[..., 1], w[..., 0])
            top = (mass * np.where(one, move[..., 1], move[..., 0])).sum(-1)
            new = (top + (w_fix * move_fix).sum(-1)) / (mass.sum(-1) + w_fix.sum(-1))
            if np.allclose(new, level, rtol=1e-10, atol=1e-12):
                break
            level = new
        found.append(sign * level)
    return found[1], found[0]


def _lines(name: str, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, ...]:
    """Slope (a multiple of 1/GRID) and the range of sigma(h) - slope h on [low, high]."""
    wide = np.maximum(high - low, 1e-3)
    middle = (low + high) / 2
    a, b = middle - wide / 2, middle + wide / 2
    slope = np.rint((activated(name, b) - activated(name, a)) / wide * GRID) / GRID
    step = 1 / GRID * np.maximum(1, np.exp2(np.ceil(np.log2(wide * GRID / 32))))
    points = a[..., None] + wide[..., None] * np.linspace(0, 1, POINTS)
    values = activated(name, points) - slope[..., None] * points
    off = 0.1 * step**2
    return slope, values.min(-1) - off, values.max(-1) + off


def cell_hints(read: ReadOut, sets: HeadSets, sign: np.ndarray, margin: float = 0.0) -> CellHints:
    """Hints for each cell; sign [R]: +1 where the logit should be positive."""
    layer, cells = read.layer, sets.cells
    R, (H, k), d = len(cells), sets.centre.shape[1:], layer.d
    D_low, D_high = sets.denominators
    alone = ((D_high - D_low) / (D_high + D_low) > ALONE)[:, :, None]
    low, high = _ends(sets, sets.centre)
    u0 = np.round(sets.centre + np.where(alone, (low + high) / 2, 0.0), 6)
    far = np.maximum(sets.centre + high - u0, u0 - sets.centre - low) * (1 + 1e-9) + 1e-9
    w, v = (x.mid for x in sets.fillers)
    w_fix, v_fix = (x.mid for x in sets._fixed)
    D = np.where(alone[:, :, 0], 1e12, 0.5) * (D_low + D_high)
    moves = w[..., None] * (v - u0[:, :, None, None]) / D[:, :, None, None, None]
    moves = np.moveaxis(moves, 4, 2).reshape(R, H * k, -1, 2)
    start = ((w_fix[..., None] * (v_fix - u0[:, :, None])).sum(2) / D[:, :, None]).reshape(R, -1)
    leak = (far * np.maximum(1 - D_low / D, D_high / D - 1)[:, :, None]).reshape(R, H * k)
    start = (start + moves[..., 0].sum(-1)) @ read.W_C
    gains = np.swapaxes(moves[..., 1] - moves[..., 0], 1, 2) @ read.W_C  # [R, F, d]

    def ranges(q: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Of q . delta for directions q [R, d, g]; None: the axes."""
        terms = np.swapaxes(gains if q is None else gains @ q, 1, 2)
        low, high = extremes(np.stack([np.zeros_like(terms), terms], -1), cells)
        at = start if q is None else (start[:, None] @ q)[:, 0]
        through = np.abs(read.W_C[None] if q is None else read.W_C[None] @ q)
        lost = (through * leak[:, :, None]).sum(1)
        return low + at - lost, high + at + lost

    c0 = centred(layer.tables.base.mid + u0.reshape(R, -1) @ layer.tables.W_O.mid)
    low, high = ranges(None)
    reach, nearest = np.maximum(-low, high), np.maximum(0, np.maximum(c0 + low, -c0 - high))
    s0 = np.sqrt((c0 * c0).mean(1) + read.epsilon)
    E = (reach**2).sum(1) / (2 * d * s0)
    slant = c0 / (d * s0)[:, None]
    low, high = ranges(slant[:, :, None])
    s_low, s_high = s0 + low[:, 0], s0 + high[:, 0] + E
    s_low = np.maximum(s_low, np.sqrt((nearest**2).mean(1) + read.epsilon))
    eta = (c0 @ read.G) / s0[:, None]
    ell = read.G[None] - slant[:, :, None] * eta[:, None, :]
    low, high = ranges(ell)
    low, high = low - np.maximum(eta, 0) * E[:, None], high + np.maximum(-eta, 0) * E[:, None]
    middle = eta + read.shift
    low = middle + np.minimum(low / s_low[:, None], low / s_high[:, None])
    high = middle + np.maximum(high / s_low[:, None], high / s_high[:, None])
    wide = high - low
    slope, below, above = _lines(layer.activation, low, high)
    now = activated(layer.activation, middle)
    z = np.round(centred(c0 + now @ layer.W_out + layer.b_out), 6)
    s_z = np.sqrt((z * z).mean(1) + read.epsilon)
    t = sign * read.rho - margin
    q = sign[:, None] * read.last + (t / (d * s_z))[:, None] * z
    ends = slope * np.stack([low, high])
    least, most = below + ends.min(0), above + ends.max(0)
    at = c0 + centred(layer.b_out) - z + (least + most) / 2 @ read.W_out
    spread = ((np.abs(at) + (most - least) / 2 @ np.abs(read.W_out) + reach) ** 2).sum(1)
    constant = t * read.epsilon / s_z + np.minimum(t, 0) * spread / (2 * d * s_z)
    S = q @ read.W_out.T
    K = S * slope
    total = constant + (q * (c0 + centred(layer.b_out))).sum(1) + (K * middle).sum(1)
    total = total + (S * np.where(S > 0, below, above)).sum(1)
    turn = (ell @ K[:, :, None])[:, :, 0]
    low, high = ranges(np.stack([q + turn / s0[:, None], turn], 2))
    total = total + low[:, 0]
    inverse = np.maximum(1 / s_low - 1 / s0, 1 / s0 - 1 / s_high)
    total = total - inverse * np.maximum(-low[:, 1], high[:, 1])
    total = total - np.maximum((K * eta).sum(1), 0) * E / s_low
    least = np.where(np.isfinite(total), total / s_z, -np.inf)
    slowed = np.maximum((K * eta).sum(1), 0) / s_low  # what E costs
    wasted = np.abs(S) * (above - below) / np.maximum(wide, 1e-9)
    slowed = slowed + (wasted * np.abs(eta)).sum(1) / s_low
    pull = (slowed / (d * s0))[:, None] * reach  # what a smaller reach saves along each axis
    final = np.abs((q + turn / s0[:, None]) @ read.W_C.T) + pull @ np.abs(read.W_C).T
    final = final + (np.abs(read.W_C @ ell) @ (wasted / s0[:, None])[:, :, None])[:, :, 0]
    costs = _Costs(
        moved=np.abs(gains @ ell), units=wasted / s0[:, None],
        pushed=np.abs(gains), axes=pull / 2, heads=(final * leak).reshape(R, H, k).sum(2),
        change=np.abs(w[..., 1] - w[..., 0]), D=(D_low, D_high),
    )  # fmt: skip
    u0, far, slopes = u0.reshape(R, -1), far.reshape(R, -1), np.rint(slope * GRID)
    return CellHints(u0, far, D, slopes, z, least, costs.places(sets))


@dataclass(frozen=True)
class _Costs:
    """What the bound loses, and how much of it each filler is to blame for: where to cut.

    moved [R, F, n], pushed [R, F, d]: how far a filler moves the units and the residual. units
    [R, n], axes [R, d]: the cost of such a move. heads [R, H]: the cost of the leaks. change
    [R, H, F]: how far a filler moves the sum of weights, which lies in D.
    """

    moved: np.ndarray
    units: np.ndarray
    pushed: np.ndarray
    axes: np.ndarray
    heads: np.ndarray
    change: np.ndarray
    D: tuple[np.ndarray, np.ndarray]

    def places(self, sets: HeadSets) -> np.ndarray:
        """The best filler of each cell, AT_COUNT, or NOWHERE."""
        cells, (R, F) = sets.cells, sets.free.shape
        if F == 0:
            return np.full(R, NOWHERE)
        single = self._saved(self.moved, self.pushed, self.change)
        half = ((cells.last - cells.first) / 2)[:, None, None]
        means = [half * x.mean(axis, keepdims=True) for x, axis in
                 ((self.moved, 1), (self.pushed, 1), (self.change, 2))]  # fmt: skip
        joint = self._saved(*means)[:, 0] * 0.5
        places = sets.free[np.arange(R), single.argmax(1)]
        if cells.fixed.shape[1] >= MAX_FIXED:
            places, single = np.full(R, NOWHERE), np.zeros_like(single)
        return np.where((half[:, 0, 0] > 0) & (joint >= single.max(1)), AT_COUNT, places)

    def _saved(self, moved: np.ndarray, pushed: np.ndarray, change: np.ndarray) -> np.ndarray:
        """[R, g]: of both halves together, for g cuts."""
        low, high = (x[:, :, None] for x in self.D)
        change = np.minimum(change, high - low)
        psi = np.maximum((high - low) / (high + low), 1e-12)
        first = (high - low - change) / (high + low + change)
        second = (high - low - change) / (high + low - change)
        leaks = self.heads[:, :, None] * (1 - (first + second) / 2 / psi)
        by_units = (moved * self.units[:, None]).sum(2)
        return by_units + (pushed * self.axes[:, None]).sum(2) + leaks.sum(1)
