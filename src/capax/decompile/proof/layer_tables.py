"""The tables of a one-layer Transformer as balls: scores, values and the way to the residual.

With one layer and a fixed query, a token enters a head through its score g[t, c] and its value
v[t, c] only (`capax.attention.collapsed`). Weights as stored are taken as exact real numbers; what
float64 adds is in the radii. What is proved from here on is about real arithmetic with the stored
weights, epsilon of LayerNorm anywhere within float32 rounding of 1e-5.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON, LayerNorm
from capax.attention.collapsed.one_layer import why_not
from capax.attention.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.compiler.proof.tables import HeadTables
from capax.errors import InputError
from capax.rounding import UNIT

EPSILON = Enclosed(np.array(LAYER_NORM_EPSILON), np.array(LAYER_NORM_EPSILON * 2.0**-23))


@dataclass(frozen=True)
class LayerTables:
    """The tables of the H heads [H, T, A], and the way from their outputs to the residual stream.

    After attention the residual of [CLS] is `base` + U `W_O`, U the H k head outputs side by side.
    """

    heads: HeadTables
    base: Enclosed  # [d]
    W_O: Enclosed  # [H k, d]

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.heads.T

    @cached_property
    def weights(self) -> tuple[Enclosed, Enclosed]:
        """e^(logit - mu) by head: of every token [H, T, A], and of the [CLS] token, shape [H]."""
        return self.heads.shifted_weights()


def one_over(d: int) -> Enclosed:
    """1/d."""
    return Enclosed(np.array(1 / d), np.array(UNIT / d))


def centred(x: Enclosed) -> Enclosed:
    """C x: minus its mean along the last axis."""
    d = x.mid.shape[-1]
    mean = x.sum(-1) * one_over(d)
    return x - Enclosed(mean.mid[..., None], mean.rad[..., None])


def inverse_deviation(c: Enclosed) -> Enclosed:
    """(|c|^2/d + eps)^(-1/2) of a centred row."""
    d = c.mid.shape[-1]
    return ((c * c).sum(-1) * one_over(d) + EPSILON).inverse_root()


def layer_normed(ln: LayerNorm | None, x: Enclosed) -> Enclosed:
    """LN of every row, or x where LayerNorm is left out."""
    if ln is None:
        return x
    c = centred(x)
    r = inverse_deviation(c)
    unit = c * Enclosed(r.mid[..., None], r.rad[..., None])
    return unit * exactly(ln.gain) + exactly(ln.bias)


def layer_tables(model: Transformer) -> LayerTables:
    """The tables of `model`. Raises `InputError` where there is no collapse (two layers)."""
    reason = why_not(model.spec)
    if reason is not None:
        raise InputError(f"model: wanted a one-layer softmax model, got {reason}")
    block, (T, d), A = model.blocks[0], model.position.shape, model.spec.alphabet
    H, _, k = block.W_Q.shape
    tokens = exactly(np.asarray(model.position)[:, None, :]) + exactly(
        np.asarray(model.embed)[None]
    )
    x = layer_normed(block.ln1, tokens).reshape(T * A, d)
    cls = exactly(np.asarray(model.cls))
    x_cls = layer_normed(block.ln1, cls).reshape(1, d)
    W_Q, W_K, W_V = (exactly(np.asarray(W)) for W in (block.W_Q, block.W_K, block.W_V))
    b_V = exactly(np.asarray(block.b_V)[:, None, :])
    q = (x_cls @ W_Q).reshape(H, k, 1) + exactly(np.asarray(block.b_Q)[:, :, None])
    scale = attention_scale(k, block.scale)
    direction = (W_K @ q) * Enclosed(np.array(scale), np.array(abs(scale) * 2.0**-52))  # [H, d, 1]
    g, g_cls = (x @ direction).reshape(H, T, A), (x_cls @ direction).reshape(H)
    heads = HeadTables(
        logits=g,
        values=(x @ W_V + b_V).reshape(H, T, A, k),
        cls_logit=g_cls,
        cls_value=(x_cls @ W_V + b_V).reshape(H, k),
    )
    W_O = np.asarray(block.W_O, np.float64).reshape(H * k, d)
    return LayerTables(heads, base=cls + exactly(np.asarray(block.b_O)), W_O=exactly(W_O))
