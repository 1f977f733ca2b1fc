"""Transformers of two and more layers with a column for every token, for a CPU.

The rows of an array [d, m n] are channels, so that loops over entries are loops of vector
instructions. Three rewritings, which change rounding alone, leave less work for a token:

- Whoever reads the stream applies LayerNorm first, which subtracts the mean over channels. The
  matrices and biases that write to it have their means subtracted instead, so LN(x) is
  gain o u + bias with u = x / sqrt(mean(x^2) + epsilon).
- Gain and bias belong to the weights that follow.
- Means over channels are products with a row of ones, which are faster than XLA's own.

A model without LayerNorm subtracts nothing, and u = x. Layers between the first and the last are
computed as they are written (`capax.attention.block`).
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Integer

from capax.attention.block import LAYER_NORM_EPSILON, Block, LayerNorm, normalised
from capax.attention.collapsed.pairwise_table import (
    Pairs,
    chosen,
    first_head_columns,
    pairs_of,
    place_cls,
)
from capax.attention.parts.activations import activated
from capax.attention.parts.scores import attention_scale
from capax.attention.products import matmul, over_examples
from capax.attention.transformer import Transformer

Columns = Float[Array, "d N"]


def logits_and_weights(
    model: Transformer, symbols: Integer[Array, "m T"]
) -> tuple[Float[Array, "m"], Float[Array, "m H n"]]:
    """Logits, and the weights of the last layer's [CLS] query; [CLS] itself last."""
    first, *between = model.blocks[:-1]
    places = place_cls(symbols)
    pairs = pairs_of(model.embed, model.position, model.cls)
    heads = first_head_columns(first, pairs, places)
    W_O = first.W_O.reshape(len(heads), -1)
    stream = _tokens(_written(first.ln1, pairs + first.b_O[None, None, :]), places)
    stream = stream + _product(_written(first.ln1, W_O), heads)
    x = (stream + _mlp(first, stream)).reshape(-1, *places.shape)
    if between:
        rows = jnp.moveaxis(x, 0, 2)
        for block in between:
            rows, _ = jax.vmap(lambda x, block=block: block(x, x))(rows)
        x = jnp.moveaxis(_written(first.ln1, rows), 2, 0)
    row, weights = _last(model.blocks[-1], x)
    return matmul(normalised(model.ln_final, row), model.w) + model.b, weights


def _tokens(pairs: Pairs, places: Integer[Array, "m n"]) -> Columns:
    """The token of each position of each example."""
    found = chosen([x.T[:, None, :] for x in pairs], places[None])
    return found.reshape(len(found), -1)


def _written(ln: LayerNorm | None, x: Float[Array, "... d"]) -> Float[Array, "... d"]:
    """What is added to the stream: its mean over channels is subtracted if LN is to follow."""
    return x if ln is None else x - jnp.mean(x, axis=-1, keepdims=True)


def _read(ln: LayerNorm | None, x: Columns) -> Columns:
    """LN(x) without gain and bias, for x of mean 0."""
    return x if ln is None else _unit(x)


def _means(x: Columns) -> Float[Array, "1 N"]:
    return matmul(jnp.full((1, len(x)), 1 / len(x), x.dtype), x)


@jax.custom_vjp
def _unit(x: Columns) -> Columns:
    """u = r x with r = 1 / sqrt(mean(x^2) + epsilon). The gradient is r (du - u mean(u o du))."""
    return _unit_kept(x)[0]


def _unit_kept(x: Columns) -> tuple[Array, tuple[Array, Array]]:
    r = lax.rsqrt(_means(x * x) + LAYER_NORM_EPSILON)
    return r * x, (r * x, r)


def _unit_back(kept: tuple[Array, Array], du: Array) -> tuple[Array]:
    u, r = kept
    return (r * (du - u * _means(u * du)),)


_unit.defvjp(_unit_kept, _unit_back)


@jax.custom_vjp
def _product(W: Float[Array, "c n"], x: Float[Array, "c N"]) -> Float[Array, "n N"]:
    """W^T x."""
    return matmul(W.T, x)


def _product_back(kept: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    """The product over tokens takes a fifth less time with the longer side first."""
    W, x = kept
    longer = len(x) >= len(dy)
    return over_examples(x, dy) if longer else over_examples(dy, x).T, matmul(W, dy)


_product.defvjp(lambda W, x: (_product(W, x), (W, x)), _product_back)


def _mlp(block: Block, x: Columns) -> Columns:
    """The MLP on every token, its output of mean 0."""
    W, b = block.W_in, block.b_in
    if block.ln2 is not None:
        W, b = block.ln2.gain[:, None] * W, b + matmul(block.ln2.bias, W)
    hidden = activated(block.activation, _product(W, _read(block.ln2, x)) + b[:, None])
    out = _product(_written(block.ln2, block.W_out), hidden)
    return out + _written(block.ln2, block.b_out)[:, None]


def _last(
    block: Block, x: Float[Array, "d m n"]
) -> tuple[Float[Array, "m d"], Float[Array, "m H n"]]:
    """The row of [CLS] after the last layer, and the weights of its query.

    The query reads a token through W_K q and a head through W_V, so they take the gain.
    """
    k, ln = block.W_Q.shape[2], block.ln1
    u = _read(ln, x.reshape(len(x), -1)).reshape(x.shape)
    by_example = jnp.swapaxes(u, 0, 1)
    z = u[:, :, -1].T if ln is None else u[:, :, -1].T * ln.gain[None] + ln.bias[None]
    q = _einsum("md,hdk->mhk", z, block.W_Q) + block.b_Q[None]
    direction = attention_scale(k, block.scale) * _einsum("mhk,hdk->mhd", q, block.W_K)
    direction = direction if ln is None else direction * ln.gain[None, None]
    weights = jax.nn.softmax(_einsum("mhd,mdn->mhn", direction, by_example), axis=2)
    mixed = _einsum("mhn,mdn->mhd", weights, by_example)
    mixed = mixed if ln is None else mixed * ln.gain[None, None] + ln.bias[None, None]
    heads = _einsum("mhd,hdk->mhk", mixed, block.W_V) + block.b_V[None]
    row = x[:, :, -1].T + _einsum("mhk,hkd->md", heads, block.W_O) + block.b_O[None]
    return row + block.mlp(row), weights


def _einsum(equation: str, a: Array, b: Array) -> Array:
    return jnp.einsum(equation, a, b, precision=lax.Precision.HIGHEST)
