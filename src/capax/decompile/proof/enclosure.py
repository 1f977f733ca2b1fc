"""The logit of a one-layer Transformer at a pattern, enclosed over all fillers.

x = base + U W_O is the residual after attention, c = C x its centred form (C = I - 11^T/d), and

    h = r(c) P^T c + const,        r(c) = (|c|^2/d + eps)^(-1/2)      (LayerNorm, MLP input)
    z = x + sigma(h) W_out + b_out,    logit = r(C z) (a . z) + const,  a = C (gain o w).

Linear relaxation, backwards (ours, after CROWN). Around a chosen point c0, delta = c - c0, the
factor is r = r0 + r1 (c0 . delta) + e (`norm_factor`), hence for every direction p

    r (p . c) = [r0 p + r1 (p . c0) c0] . c - r1 (p . c0)|c0|^2
                + r1 (c0 . delta)(p . delta) + e (p . c).

The bracket is a linear functional of c, hence of the head outputs U, whose range over a cell is
certified in `head_sets`; the last two terms are of second order. The MLP lies between parallel
lines (`relaxation`), so that a . z is again of the form k . x + r (p . c) plus a small interval.
Post-norm layers add the MLP to LN(x) instead of x: then k = 0 and p has one more part, C (gain o q)
for q . z. A pooler has lines of its own, and one linear form of z for each cell. Everything is
rounded outward.
"""

from dataclasses import dataclass, replace

import numpy as np

from capax.compiler.proof.enclosed import (
    Enclosed,
    between,
    exactly,
    inverse_root_between,
    joined,
)
from capax.decompile.proof.head_sets import HeadSets, Pair
from capax.decompile.proof.layer_tables import NormWeights, centred, one_over
from capax.decompile.proof.norm_factor import NormFactor, main_directions, norm_factor
from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.decompile.proof.relaxation import relaxed
from capax.rounding import TINY, UNIT, UP, gamma


@dataclass(frozen=True)
class Enclosure:
    """low <= logit <= high at every input of each cell."""

    low: np.ndarray
    high: np.ndarray


def enclose(layer: OneQueryLayer, sets: HeadSets) -> Enclosure:
    """Enclose the logit over the cells of `sets`."""
    stage = _Residual.of(layer, sets)
    P, shift = _folded(layer.norm, layer.W_in, layer.b_in)
    if layer.rounding is not None:
        off = layer.rounding.hidden(stage.root, stage.mean)
        shift = shift.spread(off.shape).widened(off)
    low, high = stage.bounds(None, P[None])
    h = between(low, high) + shift
    off = None if layer.rounding is None else layer.rounding.residual(h.size)
    z = _AfterMlp(layer, stage, P, shift, relaxed(layer.activation, h.low, h.high), off)
    low, high = _pooled(layer, z) if layer.pooler is not None else _read(layer, z)
    known = np.isfinite(low) & np.isfinite(high)
    return Enclosure(np.where(known, low, -np.inf), np.where(known, high, np.inf))


def _folded(ln: NormWeights | None, W: np.ndarray, b: np.ndarray) -> tuple[Enclosed, Enclosed]:
    """(P, shift): LN(x) W + b = r (P^T C x) + shift; without LayerNorm r = 1 and C = I."""
    if ln is None:
        return exactly(W), exactly(b)
    P = centred((exactly(ln.gain[:, None]) * exactly(W)).moved(0, 1)).moved(0, 1)
    return P, (exactly(ln.bias[None]) @ exactly(W)).reshape(-1) + exactly(b)


@dataclass(frozen=True)
class _AfterMlp:
    """z = kept + sigma(h) W_out + b_out over each cell, sigma between parallel lines."""

    layer: OneQueryLayer
    stage: "_Residual"
    P: Enclosed  # [d, n]: h = r (P^T c) + shift
    shift: Enclosed  # [n] or [R, n]
    lines: tuple[np.ndarray, np.ndarray, np.ndarray]  # alpha, below, above [R, n]
    off: np.ndarray | None = None  # [R, d]: rounding of z

    def ranges(self, wanted: Enclosed) -> Enclosed:
        """Range of q . z for directions q [R or 1, d, g]."""
        layer, (alpha, below, above) = self.layer, self.lines
        R = len(alpha)
        slopes = exactly(layer.W_out)[None] @ wanted  # [R or 1, n, g]: how far h moves q . z
        middle = between(below, above) + exactly(alpha) * self.shift  # [R, n]
        n = middle.mid.shape[1]
        constant = (middle.reshape(R, 1, n) @ slopes)[:, 0]
        constant = constant + (exactly(layer.b_out[None, None]) @ wanted)[:, 0]
        p = self.P[None] @ (exactly(alpha[:, :, None]) * slopes)  # [R, d, g]
        k = wanted if layer.kept == "residual" else None
        if layer.kept == "normed" and layer.norm is None:
            p = p + wanted
        elif layer.kept == "normed" and layer.norm is not None:
            gained = exactly(layer.norm.gain[:, None]) * wanted
            p = p + centred(gained.moved(1, 2)).moved(1, 2)
            constant = constant + (exactly(layer.norm.bias[None, None]) @ wanted)[:, 0]
        if self.off is not None:
            constant = constant.widened((self.off[:, None] @ wanted.size)[:, 0] * UP)
        return between(*self.stage.bounds(k, p)) + constant


def _read(layer: OneQueryLayer, z: _AfterMlp) -> Pair:
    """The logit w . LN(z) + b, or w . z + b."""
    if layer.final is None:
        total = z.ranges(layer.w.reshape(1, layer.d, 1))[:, 0] + layer.b
        return total.low, total.high
    gain, bias = exactly(layer.final.gain), exactly(layer.final.bias[None])
    a = centred(gain * layer.w).reshape(layer.d, 1)
    rest = (bias @ layer.w.reshape(layer.d, 1)).reshape(1) + layer.b
    found = z.ranges(joined(a, _axes(layer.d), axis=1)[None])
    r = _inverse_deviation(found[:, 1:], layer.final)
    low, high = _product(found[:, 0].low, found[:, 0].high, r)
    if layer.rounding is not None:
        mean = z.ranges(_mean(layer.d))[:, 0].size
        rest = rest.spread(mean.shape).widened(layer.rounding.logit(r.high, mean))
    return (exactly(low) + rest).low, (exactly(high) + rest).high


def _pooled(layer: OneQueryLayer, z: _AfterMlp) -> Pair:
    """The logit w . rho(LN(z) W + b_W) + b: lines around rho, then one linear form of z by cell."""
    assert layer.pooler is not None
    P, shift = _folded(layer.final, layer.pooler.W, layer.pooler.b)  # [d, e]
    e = len(layer.pooler.b)
    found = z.ranges(joined(P, _axes(layer.d), axis=1)[None])
    r = None if layer.final is None else _inverse_deviation(found[:, e:], layer.final)
    columns = found[:, :e]
    low, high = columns.low, columns.high
    if r is not None:
        low, high = _product(low, high, Enclosed(r.mid[:, None], r.rad[:, None]))
    g = between(low, high) + shift
    alpha, below, above = relaxed(layer.pooler.activation, g.low, g.high)
    w = layer.w.reshape(e, 1)
    lean = exactly(alpha[:, :, None]) * w[None]  # [R, e, 1]
    form = z.ranges(P[None] @ lean)[:, 0]
    low, high = form.low, form.high
    if r is not None:
        low, high = _product(low, high, r)
    rest = ((between(below, above) + exactly(alpha) * shift) @ w)[:, 0] + layer.b
    return (exactly(low) + rest).low, (exactly(high) + rest).high


def _mean(d: int) -> Enclosed:
    """The direction of the mean, [1, d, 1]."""
    return one_over(d).spread((1, d, 1))


def _axes(d: int) -> Enclosed:
    """The columns of C: C z has its coordinates along them."""
    return centred(exactly(np.eye(d)))


def _product(low: np.ndarray, high: np.ndarray, r: Enclosed) -> Pair:
    """[low, high] r for r > 0, by the ends: where a . z has a sign, a wide r leaves it."""
    least = np.minimum(low * np.maximum(r.low, 0.0), low * r.high)
    most = np.maximum(high * np.maximum(r.low, 0.0), high * r.high)
    return least - 2 * UNIT * np.abs(least) - TINY, most + 2 * UNIT * np.abs(most) + TINY


def _inverse_deviation(c: Enclosed, ln: NormWeights) -> Enclosed:
    """r over a box of centred vectors c [R, d]."""
    low, high = c.low, c.high
    d = low.shape[1]
    inside = (low <= 0) & (high >= 0)
    small = np.where(inside, 0.0, np.minimum(np.abs(low), np.abs(high)))
    large = np.maximum(np.abs(low), np.abs(high))
    up = 1 + 2 * gamma(d + 4)
    least = (small**2).sum(1) / d / up
    most = (large**2).sum(1) / d * up + TINY
    epsilon = ln.enclosed_epsilon
    return inverse_root_between(least + epsilon.low, most + epsilon.high)


@dataclass(frozen=True)
class _Residual:
    """The residual c over each cell: the point c0, and the factor r of LayerNorm around it."""

    sets: HeadSets
    x: Enclosed  # [R, d]: the residual at the centre of the head outputs
    W_O: Enclosed  # [H k, d]
    c: Enclosed  # [R, d] and
    W_C: Enclosed  # [H k, d]: the same two, centred where LayerNorm follows
    factor: NormFactor | None = None

    @property
    def c0(self) -> np.ndarray:
        """The point around which the factor is linear, [R, d]."""
        return self.c.mid

    @staticmethod
    def of(layer: OneQueryLayer, sets: HeadSets) -> "_Residual":
        tables, R = sets.tables, len(sets.cells)
        u0 = exactly(sets.centre.reshape(R, -1))
        x, W_O = tables.base[None] + u0 @ tables.W_O, tables.W_O
        if layer.norm is None:
            return _Residual(sets, x, W_O, x, W_O)
        stage = _Residual(sets, x, W_O, centred(x), centred(W_O))
        moves = sets.linear.moves  # [R, H k, F, 2]
        moved = np.swapaxes(moves[..., 1] - moves[..., 0], 1, 2) @ stage.W_C.mid  # [R, F, d]
        epsilon = layer.norm.enclosed_epsilon
        factor = norm_factor(stage.c0, main_directions(moved), stage.ranges, epsilon)
        return replace(stage, factor=factor)

    @property
    def root(self) -> np.ndarray:
        """At least 1/sigma over each cell [R]."""
        assert self.factor is not None
        return self.factor.most

    @property
    def mean(self) -> np.ndarray:
        """At least |mean of x| over each cell [R]."""
        d = self.c.mid.shape[1]
        return between(*self.ranges(exactly(np.zeros((1, d, 1))), _mean(d)))[:, 0].size

    def ranges(self, q: Enclosed, k: Enclosed | None = None) -> Pair:
        """Range of q . c + k . x for directions [R or 1, d, g], through the head outputs."""
        R, d = self.c.mid.shape
        constant = (self.c.reshape(R, 1, d) @ q)[:, 0]
        directions = self.W_C[None] @ q
        if k is not None:
            constant = constant + (self.x.reshape(R, 1, d) @ k)[:, 0]
            directions = directions + self.W_O[None] @ k
        total = between(*self.sets.ranges(directions)) + constant
        return total.low, total.high

    def bounds(self, k: Enclosed | None, p: Enclosed) -> Pair:
        """Range of k . x + r (p . c) for k, p [R or 1, d, g] (r = 1 without LayerNorm)."""
        if self.factor is None:
            return self.ranges(p, k)
        r0, r1, e, along = (
            Enclosed(b.mid[:, None], b.rad[:, None])
            for b in (self.factor.r0, self.factor.r1, self.factor.e, self.factor.along)
        )
        at = (exactly(self.c0[:, None, :]) @ p)[:, 0]  # p . c0, [R, g]
        lean = r1 * at
        linear = _rows(r0) * p + _rows(lean) * exactly(self.c0[:, :, None])
        found = between(*self.ranges(linear, k))
        squared = (exactly(self.c0) * exactly(self.c0)).sum(1)
        squared = Enclosed(squared.mid[:, None], squared.rad[:, None])
        aside = self.factor.box.aside(p)  # |p . delta|, [R, g]
        off = Enclosed(np.zeros_like(aside), aside)
        total = found - lean * squared + r1 * along * off + e * (at + off)
        return total.low, total.high


def _rows(b: Enclosed) -> Enclosed:
    """[R, g] as [R, 1, g], to multiply [R, d, g]."""
    return Enclosed(b.mid[:, None, :], b.rad[:, None, :])
