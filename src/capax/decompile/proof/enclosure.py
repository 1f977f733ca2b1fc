"""The logit of a one-layer Transformer at a pattern, enclosed over all fillers.

x = base + U W_O is the residual after attention, c = C x its centred form (C = I - 11^T/d), and

    h = r(c) P^T c + const,        r(c) = (|c|^2/d + eps)^(-1/2)      (LayerNorm, MLP input)
    z = c + C (sigma(h) W_out + b_out),    logit = r(z) (a . z) + const,  a = C (gain o w).

Linear relaxation, backwards (ours, after CROWN). Around a chosen point c0, delta = c - c0, the
factor is r = r0 + r1 (c0 . delta) + e (`norm_factor`), hence for every direction p

    r (p . c) = [r0 p + r1 (p . c0) c0] . c - r1 (p . c0)|c0|^2
                + r1 (c0 . delta)(p . delta) + e (p . c).

The bracket is a linear functional of c, hence of the head outputs U, whose range over a cell is
certified in `head_sets`; the last two terms are of second order. The MLP lies between parallel
lines (`relaxation`), so that a . z is again of the form k . c + r (p . c) plus a small interval.
Everything is rounded outward.
"""

from dataclasses import dataclass, replace

import numpy as np

from capax.attention.block import LayerNorm
from capax.attention.transformer import Transformer
from capax.compiler.proof.enclosed import Enclosed, between, exactly, inverse_root_between
from capax.decompile.proof.head_sets import HeadSets, Pair
from capax.decompile.proof.layer_tables import EPSILON, centred
from capax.decompile.proof.norm_factor import NormFactor, main_directions, norm_factor
from capax.decompile.proof.relaxation import relaxed
from capax.rounding import TINY, UNIT, gamma


@dataclass(frozen=True)
class Enclosure:
    """low <= logit <= high at every input of each cell."""

    low: np.ndarray
    high: np.ndarray


def enclose(model: Transformer, sets: HeadSets) -> Enclosure:
    """Enclose the logit over the cells of `sets`."""
    stage = _Residual.of(model, sets)
    block = model.blocks[0]
    gain, bias = _affine(block.ln2, model.spec.d)
    W_in = exactly(np.asarray(block.W_in))
    P = W_in  # [d, n]; nothing is centred without LayerNorm
    if block.ln2 is not None:
        P = centred((exactly(gain[:, None]) * W_in).moved(0, 1)).moved(0, 1)
    shift = (exactly(bias[None]) @ W_in).reshape(-1) + exactly(np.asarray(block.b_in))
    low, high = stage.bounds(exactly(np.zeros((1, 1, 1))), P[None])
    h = between(low, high) + shift
    return _read_out(model, stage, P, shift, relaxed(block.activation, h.low, h.high))


def _read_out(
    model: Transformer,
    stage: "_Residual",
    P: Enclosed,
    shift: Enclosed,
    lines: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> Enclosure:
    """From the lines around the MLP to the logit: a . z, and |C z|^2 for the last LayerNorm."""
    block, (alpha, below, above) = model.blocks[0], lines
    gain, bias = _affine(model.ln_final, model.spec.d)
    normed = model.ln_final is not None
    w = exactly(gain) * exactly(np.asarray(model.w))
    a = centred(w) if normed else w  # [d]
    d = len(a.mid)
    eye = exactly(np.eye(d))
    wanted = Enclosed(
        np.concatenate([a.mid[:, None], centred(eye).mid], 1),
        np.concatenate([a.rad[:, None], centred(eye).rad], 1),
    )  # [d, 1 + d]
    W_out = exactly(np.asarray(block.W_out))
    slopes = W_out @ wanted  # [n, 1 + d], how far each hidden unit moves a . z and C z
    middle = between(below, above) + exactly(alpha) * shift  # [R, n]
    constant = middle @ slopes + (exactly(np.asarray(block.b_out)[None]) @ wanted)
    tilted = exactly(alpha[:, :, None]) * slopes[None]  # [R, n, 1 + d]
    p = P[None] @ tilted  # [R, d, 1 + d]
    low, high = stage.bounds(wanted[None], p)
    z = between(low, high) + constant  # [R, 1 + d]
    rest = (exactly(bias[None]) @ exactly(np.asarray(model.w)[:, None])).reshape(1) + (
        exactly(np.asarray(model.b)[None])
    )
    low, high = z[:, 0].low, z[:, 0].high
    if normed:
        low, high = _product(low, high, _inverse_deviation(z[:, 1:].low, z[:, 1:].high))
    low, high = (exactly(low) + rest).low, (exactly(high) + rest).high
    known = np.isfinite(low) & np.isfinite(high)
    return Enclosure(np.where(known, low, -np.inf), np.where(known, high, np.inf))


def _product(low: np.ndarray, high: np.ndarray, r: Enclosed) -> Pair:
    """[low, high] r for r > 0, by the ends: where a . z has a sign, a wide r leaves it."""
    least = np.minimum(low * np.maximum(r.low, 0.0), low * r.high)
    most = np.maximum(high * np.maximum(r.low, 0.0), high * r.high)
    return least - 2 * UNIT * np.abs(least) - TINY, most + 2 * UNIT * np.abs(most) + TINY


def _inverse_deviation(low: np.ndarray, high: np.ndarray) -> Enclosed:
    """r over a box of centred vectors."""
    d = low.shape[1]
    inside = (low <= 0) & (high >= 0)
    small = np.where(inside, 0.0, np.minimum(np.abs(low), np.abs(high)))
    large = np.maximum(np.abs(low), np.abs(high))
    up = 1 + 2 * gamma(d + 4)
    least = (small**2).sum(1) / d / up
    most = (large**2).sum(1) / d * up + TINY
    return inverse_root_between(least + EPSILON.low, most + EPSILON.high)


def _affine(ln: LayerNorm | None, d: int) -> tuple[np.ndarray, np.ndarray]:
    if ln is None:
        return np.ones(d), np.zeros(d)
    return np.asarray(ln.gain, np.float64), np.asarray(ln.bias, np.float64)


@dataclass(frozen=True)
class _Residual:
    """The residual c over each cell: the point c0, and the factor r of LayerNorm around it."""

    sets: HeadSets
    base: Enclosed  # [R, d]: c at the centre of the head outputs
    W_O: Enclosed  # [H k, d]; rows and base are centred where LayerNorm follows
    c0: np.ndarray  # [R, d]
    factor: NormFactor | None = None

    @staticmethod
    def of(model: Transformer, sets: HeadSets) -> "_Residual":
        tables, R = sets.tables, len(sets.cells)
        u0 = exactly(sets.centre.reshape(R, -1))
        base, W_O = tables.base[None] + u0 @ tables.W_O, tables.W_O
        if model.blocks[0].ln2 is None:
            return _Residual(sets, base, W_O, base.mid)
        base, W_O = centred(base), centred(W_O)
        stage = _Residual(sets, base, W_O, base.mid)
        moves = sets.linear.moves  # [R, H k, F, 2]
        moved = np.swapaxes(moves[..., 1] - moves[..., 0], 1, 2) @ W_O.mid  # [R, F, d]
        factor = norm_factor(stage.c0, main_directions(moved), stage.ranges)
        return replace(stage, factor=factor)

    def ranges(self, directions: Enclosed) -> Pair:
        """Range of q . c for directions q [R or 1, d, g], through the head outputs."""
        R, d = self.base.mid.shape
        constant = (self.base.reshape(R, 1, d) @ directions)[:, 0]
        total = between(*self.sets.ranges(self.W_O[None] @ directions)) + constant
        return total.low, total.high

    def bounds(self, k: Enclosed, p: Enclosed) -> Pair:
        """Range of k . c + r (p . c) for k, p [R or 1, d, g] (r = 1 without LayerNorm)."""
        if self.factor is None:
            return self.ranges(k + p)
        r0, r1, e, along = (
            Enclosed(b.mid[:, None], b.rad[:, None])
            for b in (self.factor.r0, self.factor.r1, self.factor.e, self.factor.along)
        )
        at = (exactly(self.c0[:, None, :]) @ p)[:, 0]  # p . c0, [R, g]
        lean = r1 * at
        linear = k + _rows(r0) * p + _rows(lean) * exactly(self.c0[:, :, None])
        found = between(*self.ranges(linear))
        squared = (exactly(self.c0) * exactly(self.c0)).sum(1)
        squared = Enclosed(squared.mid[:, None], squared.rad[:, None])
        aside = self.factor.box.aside(p)  # |p . delta|, [R, g]
        off = Enclosed(np.zeros_like(aside), aside)
        total = found - lean * squared + r1 * along * off + e * (at + off)
        return total.low, total.high


def _rows(b: Enclosed) -> Enclosed:
    """[R, g] as [R, 1, g], to multiply [R, d, g]."""
    return Enclosed(b.mid[:, None, :], b.rad[:, None, :])
