"""Transformers of two and more layers over whole arrays [m, T + 1, d], their first layer by tables.

The first layer attends through a table of (symbol, position) pairs (`pairwise_table`); layers
between the first and the last attend as they are written. Of the last layer only the row of [CLS]
is read: one query per example, so that keys and values of all tokens need not be computed,

    score_t = LN(x_t) . (W_K q) / sqrt k,     head = (sum_t a_t LN(x_t)) W_V + b_V,

two products of width H for each token instead of two of width d. A bias of the keys adds the same
number to all scores of a query and drops out. Products with all tokens have gradients that are
summed in groups of examples (`capax.attention.products`). A CPU has a form of its own
(`pairwise_columns`).
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Integer

from capax.attention.block import Block, normalised
from capax.attention.collapsed import pairwise_columns
from capax.attention.collapsed.pairwise_table import first_heads, pairs_of, place_cls, tokens_of
from capax.attention.parts.activations import activated
from capax.attention.parts.scores import attention_scale
from capax.attention.products import matmul, over_width
from capax.attention.transformer import Transformer, TransformerSpec

Symbols = Integer[Array, "m T"]


def why_not(spec: TransformerSpec) -> str | None:
    """Why a model of several layers is not covered, in one line; None if it is."""
    if spec.layers < 2:
        return "1 layer: no layer after the first"
    if spec.normalizer != "softmax":
        return f"normalizer {spec.normalizer}: only softmax weights are tabulated"
    return None


def logits(model: Transformer, symbols: Symbols, *, tensor_cores: bool) -> Float[Array, "m"]:
    """The logits of m examples; differentiable in `model`."""
    return logits_and_weights(model, symbols, tensor_cores=tensor_cores)[0]


def logits_and_weights(
    model: Transformer, symbols: Symbols, *, tensor_cores: bool
) -> tuple[Float[Array, "m"], Float[Array, "m H n"]]:
    """Logits, and the weights of the last layer's [CLS] query; [CLS] itself last.

    tensor_cores: products with the design matrix in three bfloat16 pieces (float32 only); without
    them tokens are columns.
    """
    if not tensor_cores:
        return pairwise_columns.logits_and_weights(model, symbols)
    first, *between = model.blocks[:-1]
    places = place_cls(symbols)
    pairs = pairs_of(model.embed, model.position, model.cls)
    heads = first_heads(first, pairs, places)
    W_O = jnp.swapaxes(first.W_O, 0, 1).reshape(heads.shape[2], -1)  # rows in the order (k, H)
    x = tokens_of(pairs, places) + over_width(heads, W_O) + first.b_O[None, None, :]
    x = x + _mlp(first, x)
    for block in between:
        x, _ = jax.vmap(lambda x, block=block: block(x, x))(x)
    row, weights = _last(model.blocks[-1], x)
    values = matmul(normalised(model.ln_final, row), model.w) + model.b
    return values, weights


def _mlp(block: Block, x: Float[Array, "m n d"]) -> Float[Array, "m n d"]:
    """The MLP on every token."""
    hidden = over_width(normalised(block.ln2, x), block.W_in) + block.b_in[None, None, :]
    return over_width(activated(block.activation, hidden), block.W_out) + block.b_out[None, None, :]


def _last(
    block: Block, x: Float[Array, "m n d"]
) -> tuple[Float[Array, "m d"], Float[Array, "m H n"]]:
    """The row of [CLS] after the last layer, and the weights of its query."""
    k = block.W_Q.shape[2]
    z = normalised(block.ln1, x)
    q = _product("md,hdk->mhk", z[:, -1], block.W_Q) + block.b_Q[None]
    u = attention_scale(k, block.scale) * _product("mhk,hdk->mhd", q, block.W_K)
    weights = jax.nn.softmax(_product("mhd,mnd->mhn", u, z), axis=2)
    mixed = _product("mhn,mnd->mhd", weights, z)
    heads = _product("mhd,hdk->mhk", mixed, block.W_V) + block.b_V[None]
    row = x[:, -1] + _product("mhk,hkd->md", heads, block.W_O) + block.b_O[None, :]
    return row + _mlp(block, row[:, None, :])[:, 0], weights


def _product(equation: str, a: Array, b: Array) -> Array:
    """An einsum in float32, also on a GPU."""
    return jnp.einsum(equation, a, b, precision=lax.Precision.HIGHEST)
