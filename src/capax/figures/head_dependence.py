"""Where the heads of a trained model look, and how much its output depends on each of them.

Attention α of the [CLS] query in the last layer, per head and example. A head's share on I leaves
out what goes to [CLS]:  sum_{t in I} α_t / sum_{t <= T} α_t, averaged over examples.

Its effect is the rise of the cross-entropy when its output is replaced by its mean over examples:
with c_h(x) = head_h(x) W_O^h, the row W_O^h is set to 0 and mean c_h is added to the bias b_O.
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
    """Per head: weights on the examples, share on I, effect on the loss; accuracy of the model."""

    weights: Float[ndarray, "H n columns"]
    share: Float[ndarray, " H"]
    effect: Float[ndarray, " H"]
    accuracy: float


def head_dependence(
    model: Transformer,
    X: Integer[ndarray, "n T"],
    y: Integer[ndarray, " n"],
    support: tuple[int, ...],
) -> HeadDependence:
    """Measure all heads of the last layer of `model` on the examples X with labels y."""
    bits, labels = jnp.asarray(X, jnp.int32), np.asarray(y, np.float64)
    logits, weights = jax.jit(jax.vmap(lambda b: _outputs(model, b)))(bits)
    weights = np.asarray(weights, np.float64).transpose(1, 0, 2)  # [H, n, T + 1]
    mean = jax.jit(jax.vmap(lambda b: head_contributions(model, b)))(bits).mean(axis=0)
    whole = cross_entropy(np.asarray(logits, np.float64), labels)
    without = [_loss_without(model, h, mean[h], bits, labels) for h in range(len(mean))]
    right = (np.asarray(logits) > 0) == (labels > 0.5)
    return HeadDependence(
        weights, share_on(weights, support), np.array(without) - whole, float(right.mean())
    )


def share_on(
    weights: Float[ndarray, "H n columns"], support: tuple[int, ...]
) -> Float[ndarray, " H"]:
    """Mean share of the attention on `support`, out of what does not go to [CLS] (last column)."""
    on_positions = weights[..., :-1]
    return (on_positions[..., list(support)].sum(-1) / on_positions.sum(-1)).mean(axis=1)


def cross_entropy(logits: Float[ndarray, " n"], y: Float[ndarray, " n"]) -> float:
    """Mean of log(1 + e^z) - y z, in nats."""
    return float(np.mean(np.logaddexp(0.0, logits) - y * logits))


def head_contributions(model: Transformer, bits: Int[Array, " T"]) -> Float[Array, "H d"]:
    """c_h(x) = head_h(x) W_O^h of the [CLS] query in the last layer."""
    x = model.tokens(bits)
    for block in model.blocks[:-1]:
        x, _ = block(x, x)
    return _contributions(model.blocks[-1], x)


def _contributions(block: Block, x: Float[Array, "T_1 d"]) -> Float[Array, "H d"]:
    weights = block.norm(block.scores(x[-1:], x))  # [H, 1, T + 1]
    values = project_with_bias(normalised(block.ln1, x), block.W_V, block.b_V)
    mixed = jax.vmap(attend)(weights, values)[:, 0]  # [H, k]
    return jnp.einsum("hk,hkd->hd", mixed, block.W_O)


def without_head(model: Transformer, h: int, mean: Float[Array, " d"]) -> Transformer:
    """The model whose head h of the last layer always writes `mean`."""
    block = model.blocks[-1]
    changed = (block.W_O.at[h].set(0.0), block.b_O + mean)
    return eqx.tree_at(lambda m: (m.blocks[-1].W_O, m.blocks[-1].b_O), model, changed)


def _outputs(model: Transformer, bits: Int[Array, " T"]) -> tuple[Array, Array]:
    logit, layers = model(bits, return_weights=True)
    return logit, layers[-1]


@eqx.filter_jit
def _logits(model: Transformer, bits: Int[Array, "n T"]) -> Any:
    return jax.vmap(lambda b: model(b))(bits)


def _loss_without(
    model: Transformer,
    h: int,
    mean: Float[Array, " d"],
    bits: Int[Array, "n T"],
    labels: Float[ndarray, " n"],
) -> float:
    logits = _logits(without_head(model, h, mean), bits)
    return cross_entropy(np.asarray(logits, np.float64), labels)
