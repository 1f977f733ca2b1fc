"""The tables of a one-layer Transformer as balls: scores, values and the way to the residual.

With one layer and a fixed query, a token enters a head through its score g[t, c] and its value
v[t, c] only (`capax.attention.collapsed`). Weights as stored are taken as exact real numbers; the
errors of float64 are in the radii. All proofs from here on are about real arithmetic with the
stored weights, epsilon of LayerNorm anywhere within float32 rounding of the stated one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON, LayerNorm
from capax.attention.collapsed.one_layer import why_not
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.compiler.proof.tables import HeadTables
from capax.errors import InputError
from capax.rounding import UNIT


def within_float32(epsilon: float) -> Enclosed:
    """Everything that rounds to `epsilon` in float32."""
    return Enclosed(np.array(epsilon), np.array(epsilon * 2.0**-23))


EPSILON = within_float32(LAYER_NORM_EPSILON)


@dataclass(frozen=True)
class NormWeights:
    """LayerNorm: gain * (x - mean) / sqrt(variance + epsilon) + bias."""

    gain: np.ndarray
    bias: np.ndarray
    epsilon: float

    @property
    def enclosed_epsilon(self) -> Enclosed:
        """Everything within float32 rounding of epsilon."""
        return within_float32(self.epsilon)


@dataclass(frozen=True)
class HeadWeights:
    """W_Q, W_K, W_V [H, d, k], b_Q, b_V [H, k], W_O [H, k, d], b_O [d], the scale of the scores.

    A key bias moves all scores of a head alike: softmax does not see it.
    """

    W_Q: np.ndarray
    W_K: np.ndarray
    W_V: np.ndarray
    b_Q: np.ndarray
    b_V: np.ndarray
    W_O: np.ndarray
    b_O: np.ndarray
    scale: float


@dataclass(frozen=True)
class LayerTables:
    """The tables of the H heads [H, T, A], and the way from their outputs to the residual stream.

    After attention the residual of [CLS] is `base` + U `W_O`, U the H k head outputs side by side.
    """

    heads: HeadTables
    base: Enclosed  # [d]
    W_O: Enclosed  # [H k, d]
    given: tuple[Enclosed, Enclosed] | None = None
    """The weights, where they are no exponentials of scores."""

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.heads.T

    @cached_property
    def weights(self) -> tuple[Enclosed, Enclosed]:
        """e^(logit - mu) by head: of every token [H, T, A], and of the [CLS] token, shape [H]."""
        return self.given or self.heads.shifted_weights()


def one_over(d: int) -> Enclosed:
    """1/d."""
    return Enclosed(np.array(1 / d), np.array(UNIT / d))


def centred(x: Enclosed) -> Enclosed:
    """C x: minus its mean along the last axis."""
    d = x.mid.shape[-1]
    mean = x.sum(-1) * one_over(d)
    return x - Enclosed(mean.mid[..., None], mean.rad[..., None])


def inverse_deviation(c: Enclosed, epsilon: Enclosed = EPSILON) -> Enclosed:
    """(|c|^2/d + eps)^(-1/2) of a centred row."""
    d = c.mid.shape[-1]
    return ((c * c).sum(-1) * one_over(d) + epsilon).inverse_root()


def layer_normed(ln: NormWeights | None, x: Enclosed) -> Enclosed:
    """LN of every row, or x where LayerNorm is left out."""
    if ln is None:
        return x
    c = centred(x)
    r = inverse_deviation(c, ln.enclosed_epsilon)
    unit = c * Enclosed(r.mid[..., None], r.rad[..., None])
    return unit * exactly(ln.gain) + exactly(ln.bias)


def norm_weights(ln: LayerNorm | None) -> NormWeights | None:
    """Gain, bias and epsilon of our LayerNorm."""
    if ln is None:
        return None
    gain, bias = (np.asarray(part, np.float64) for part in (ln.gain, ln.bias))
    return NormWeights(gain, bias, LAYER_NORM_EPSILON)


def layer_tables(model: Transformer) -> LayerTables:
    """The tables of `model`. Raises `InputError` where there is no collapse (two layers)."""
    reason = why_not(model.spec)
    if reason is not None:
        raise InputError(f"model: wanted a one-layer softmax model, got {reason}")
    block = model.blocks[0]
    tokens = exactly(np.asarray(model.position)[:, None, :]) + exactly(
        np.asarray(model.embed)[None]
    )
    names = ("W_Q", "W_K", "W_V", "b_Q", "b_V", "W_O", "b_O")
    weights = {name: np.asarray(getattr(block, name), np.float64) for name in names}
    scale = attention_scale(block.W_Q.shape[-1], block.scale)
    heads = HeadWeights(**weights, scale=scale)
    cls = exactly(np.asarray(model.cls))
    return tables_of(tokens, cls, norm_weights(block.ln1), heads, kept=True)


def tables_of(
    tokens: Enclosed, query: Enclosed, ln: NormWeights | None, heads: HeadWeights, *, kept: bool
) -> LayerTables:
    """The tables of heads that the token `query` [d] asks, among itself and `tokens` [T, A, d].

    ln: the norm in front of the heads. kept: whether the query's own vector is added to what its
    heads put out.
    """
    T, A, d = tokens.mid.shape
    H, _, k = heads.W_Q.shape
    x = layer_normed(ln, tokens).reshape(T * A, d)
    x_query = layer_normed(ln, query).reshape(1, d)
    W_Q, W_K, W_V = (exactly(W) for W in (heads.W_Q, heads.W_K, heads.W_V))
    b_V = exactly(heads.b_V[:, None, :])
    q = (x_query @ W_Q).reshape(H, k, 1) + exactly(heads.b_Q[:, :, None])
    scale = heads.scale
    direction = (W_K @ q) * Enclosed(np.array(scale), np.array(abs(scale) * 2.0**-52))  # [H, d, 1]
    g, g_query = (x @ direction).reshape(H, T, A), (x_query @ direction).reshape(H)
    tables = HeadTables(
        logits=g,
        values=(x @ W_V + b_V).reshape(H, T, A, k),
        cls_logit=g_query,
        cls_value=(x_query @ W_V + b_V).reshape(H, k),
    )
    b_O = exactly(heads.b_O)
    base = query + b_O if kept else b_O
    return LayerTables(tables, base=base, W_O=exactly(heads.W_O.reshape(H * k, d)))
