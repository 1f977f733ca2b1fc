"""Where the heads of a trained model look, and how much its output depends on each of them.

Attention α of the [CLS] query, per layer, head and example. A head's share on I does not count the
attention on [CLS]:  sum_{t in I} α_t / sum_{t <= T} α_t, averaged over examples.

Its effect is the rise of the cross-entropy when its output, c_h(x) = head_h(x) W_O^h in every row
that is read later, is replaced by the mean over examples of the same row.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer
from numpy import ndarray

from capax.attention.block import Block, normalised, project_with_bias
from capax.attention.head import attend
from capax.attention.transformer import Transformer


@dataclass(frozen=True)
class HeadDependence:
    """Per head, layer after layer: weights on the examples, share on I, effect on the loss, and
    the accuracy without it. `heads`: (layer, head), 0-based. `accuracy`: of the whole model."""

    heads: tuple[tuple[int, int], ...]
    weights: Float[ndarray, "LH n columns"]
    share: Float[ndarray, " LH"]
    effect: Float[ndarray, " LH"]
    left: Float[ndarray, " LH"]
    accuracy: float


def head_dependence(
    model: Transformer,
    X: Integer[ndarray, "n T"],
    y: Integer[ndarray, " n"],
    support: tuple[int, ...],
) -> HeadDependence:
    """Measure all heads of all layers of `model` on the examples X with labels y."""
    bits, labels = jnp.asarray(X, jnp.int32), np.asarray(y, np.float64)
    logits, layers = _outputs(model, bits)
    weights = np.concatenate([np.asarray(w, np.float64).transpose(1, 0, 2) for w in layers])
    means = [write.mean(axis=0) for write in head_writes(model, bits)]  # [H, rows, d] per layer
    heads = tuple((layer, h) for layer, mean in enumerate(means) for h in range(len(mean)))
    without = [np.asarray(logits_without(model, bits, means, at), np.float64) for at in heads]
    whole = cross_entropy(np.asarray(logits, np.float64), labels)
    effect = np.array([cross_entropy(z, labels) for z in without]) - whole
    left = np.array([float(((z > 0) == (labels > 0.5)).mean()) for z in without])
    right = (np.asarray(logits) > 0) == (labels > 0.5)
    share = share_on(weights, support)
    return HeadDependence(heads, weights, share, effect, left, float(right.mean()))


@eqx.filter_jit
def head_writes(model: Transformer, bits: Int[Array, "n T"]) -> list[Float[Array, "n H rows d"]]:
    """c_h(x) of every layer: all rows, except in the last layer, where only [CLS] is read."""

    def one(row: Int[Array, " T"]) -> list[Array]:
        x, found = model.tokens(row), []
        for layer, block in enumerate(model.blocks):
            rows = x[-1:] if layer == len(model.blocks) - 1 else x
            found.append(_writes(block, rows, x))
            x = _after(block, rows, found[-1])
        return found

    return jax.vmap(one)(bits)


def logits_without(
    model: Transformer, bits: Int[Array, "n T"], means: list[Array], head: tuple[int, int]
) -> Float[Array, " n"]:
    """Logits when the output of one (layer, head) is replaced by its mean."""
    layers = [jnp.full(len(m), i == head[0]) for i, m in enumerate(means)]
    cut = [at & (jnp.arange(len(at)) == head[1]) for at in layers]
    return _cut_logits(model, bits, means, cut)


@eqx.filter_jit
def _cut_logits(model: Transformer, bits: Array, means: list[Array], cut: list[Array]) -> Any:
    def one(row: Array) -> Array:
        x = model.tokens(row)
        for layer, block in enumerate(model.blocks):
            rows = x[-1:] if layer == len(model.blocks) - 1 else x
            writes = jnp.where(cut[layer][:, None, None], means[layer], _writes(block, rows, x))
            x = _after(block, rows, writes)
        return normalised(model.ln_final, x[0]) @ model.w + model.b

    return jax.vmap(one)(bits)


def _writes(
    block: Block, rows: Float[Array, "Q d"], x: Float[Array, "T_1 d"]
) -> Float[Array, "H Q d"]:
    weights = block.norm(block.scores(rows, x))
    values = project_with_bias(normalised(block.ln1, x), block.W_V, block.b_V)
    return jnp.einsum("hqk,hkd->hqd", jax.vmap(attend)(weights, values), block.W_O)


def _after(
    block: Block, rows: Float[Array, "Q d"], writes: Float[Array, "H Q d"]
) -> Float[Array, "Q d"]:
    """The rows after a block, from the outputs `writes` of its heads."""
    rows = rows + jnp.sum(writes, axis=0) + block.b_O[None, :]
    return rows + block.mlp(rows)


def share_on(
    weights: Float[ndarray, "H n columns"], support: tuple[int, ...]
) -> Float[ndarray, " H"]:
    """Mean share of the attention on `support`, without that on [CLS] (the last column)."""
    on_positions = weights[..., :-1]
    return (on_positions[..., list(support)].sum(-1) / on_positions.sum(-1)).mean(axis=1)


def cross_entropy(logits: Float[ndarray, " n"], y: Float[ndarray, " n"]) -> float:
    """Mean of log(1 + e^z) - y z, in nats."""
    return float(np.mean(np.logaddexp(0.0, logits) - y * logits))


@eqx.filter_jit
def _outputs(model: Transformer, bits: Int[Array, "n T"]) -> Any:
    return jax.vmap(lambda row: model(row, return_weights=True))(bits)
