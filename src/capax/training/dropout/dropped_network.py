"""The logits of a one-layer Transformer in training mode: minGPT's block with dropout.

minGPT drops three times: the token vectors before the block ([CLS] too, so every example has a
query and a residual stream of its own), the weights of each head after the softmax, and the outputs
of attention and MLP before the residual sum. Kept numbers are scaled by 1/(1 - p).

With dropped weights a head's weights no longer sum to 1: the constant that all values share
(LayerNorm's bias through W_V, and b_V) is multiplied by the sum A / L / (1 - p) of kept weights.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, UInt8

from capax.attention.collapsed.design import matmul, one_hot
from capax.attention.collapsed.one_layer import (
    Collapsed,
    cls_row,
    projection,
    value_constant,
)
from capax.attention.collapsed.one_layer_table import centred, head_sums, inverse_deviation
from capax.attention.collapsed.row_norm import normalised_rows
from capax.attention.parts.activations import activated
from capax.attention.parts.scores import attention_scale
from capax.training.dropout.dropout_masks import EMBEDDING, OUTPUT, Masks
from capax.training.dropout.token_sums import TokenSums, collapsed_sums, token_sums
from capax.training.specs.trial_specs import DropoutSpec

Sums = Callable[..., TokenSums]  # as `token_sums`


def dropped_logits(
    params: Collapsed,
    bits: UInt8[Array, "m T"],
    masks: Masks,
    dropout: DropoutSpec,
    sums: Sums | None = None,
) -> Float[Array, "m"]:
    """The logits of m examples with this step's masks; differentiable in `params`.

    sums: another way to `token_sums` (the kernel), then used wherever tokens or weights are
    dropped.
    """
    if sums is None and not dropout.embedding:
        mixed, residual = _collapsed_heads(params, bits, masks, dropout.attention)
    else:
        mixed, residual = _heads(params, bits, masks, dropout, sums or token_sums)
    W_O = params.W_O.reshape(params.W_O.shape[-1], -1)

    def added(place: int, x: Array) -> Array:
        return _dropped(OUTPUT, dropout.output, masks, place, x)

    x = residual + added(0, matmul(mixed, W_O, 1, 0) + params.b_O[None, :])
    hidden = matmul(normalised_rows(params.ln2, x), params.W_in, 1, 0) + params.b_in[None, :]
    hidden = activated(params.activation, hidden)
    x = x + added(1, matmul(hidden, params.W_out, 1, 1) + params.b_out[None, :])
    return matmul(normalised_rows(params.ln_final, x), params.w, 1, 0) + params.b


def _dropped(
    kind: int, rate: float, masks: Masks, place: int, x: Float[Array, "m d"]
) -> Float[Array, "m d"]:
    """x with numbers dropped at one place of every example, the others scaled up."""
    if not rate:
        return x
    m, d = x.shape
    kept = masks.columns_of_examples(kind, rate, place, m, d)
    return jnp.where(kept, x / (1.0 - rate), jnp.zeros_like(x))


def _heads(
    params: Collapsed, bits: Array, masks: Masks, dropout: DropoutSpec, sums: Sums
) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
    """The outputs of the heads, [m, (k, H)], and the residual stream before them."""
    (m, T), (k, H, d) = bits.shape, params.W_V.shape
    rate, ln = dropout.embedding, params.ln1 is not None
    x = jnp.broadcast_to(params.cls[None, :], (m, d))
    x = _dropped(EMBEDDING, rate, masks, T, x)
    q = matmul(normalised_rows(params.ln1, x), params.W_Q.reshape(k * H, d), 1, 1)
    q = q.reshape(m, k, H) + params.b_Q[None]
    U = jnp.einsum("mkh,khd->mhd", q, params.W_K, precision=lax.Precision.HIGHEST)
    U = attention_scale(k, params.scale) * U
    y = x
    if params.ln1 is not None:
        U = centred(U * params.ln1.gain[None, None, :])
        y = inverse_deviation(x)[:, None] * centred(x)
    found = sums(params.position, params.embed, U, bits, masks, dropout, ln)
    score = jnp.einsum("mhd,md->mh", U, y, precision=lax.Precision.HIGHEST)
    mu = lax.stop_gradient(jnp.maximum(found.mu, score))
    shrunk, own = jnp.exp(lax.stop_gradient(found.mu) - mu), jnp.exp(score - mu)
    kept = own
    if dropout.attention:
        kept = jnp.where(masks.heads_at(dropout.attention, T, m, H), own, jnp.zeros_like(own))
    pooled = centred(found.pooled) if ln else found.pooled
    pooled = shrunk[:, :, None] * pooled + kept[:, :, None] * y[:, None, :]
    total = (shrunk * found.total + own) * (1.0 - dropout.attention)
    share = (shrunk * found.kept + kept) / total
    pooled = pooled / total[:, :, None]
    if params.ln1 is not None:
        pooled = pooled * params.ln1.gain[None, None, :]
    heads = jnp.einsum("mhd,khd->mkh", pooled, params.W_V, precision=lax.Precision.HIGHEST)
    constant = value_constant(params).reshape(k, H)
    return (heads + share[:, None, :] * constant[None]).reshape(m, d), x


def _collapsed_heads(
    params: Collapsed, bits: Array, masks: Masks, rate: float
) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
    """The same if no token vector is dropped: values and weights come from the table."""
    (m, T), (k, H, d) = bits.shape, params.W_V.shape
    W = projection(params)
    y_cls = cls_row(params, W)
    ln = params.ln1 is not None
    table = (params.position, params.embed, W, lax.stop_gradient(y_cls[-1]))
    if rate:
        values, kept, total, mu = collapsed_sums(*table, bits, masks, rate, ln)
    else:
        found, mu = head_sums(*table, one_hot(bits, len(params.embed), params.cls.dtype), ln)
        found = found.reshape(m, k + 1, H)
        values, kept, total = found[:, :k], found[:, k], found[:, k]
        mu = lax.stop_gradient(mu)
    own = jnp.exp(y_cls[-1] - mu)
    mine = jnp.broadcast_to(own[None, :], (m, H))
    if rate:
        mine = jnp.where(masks.heads_at(rate, T, m, H), mine, jnp.zeros_like(mine))
    total = (total + own[None, :]) * (1.0 - rate)
    heads = (values + mine[:, None, :] * y_cls[None, :k]) / total[:, None, :]
    share = (kept + mine) / total
    constant = value_constant(params).reshape(k, H)
    mixed = (heads + share[:, None, :] * constant[None]).reshape(m, d)
    return mixed, jnp.broadcast_to(params.cls[None, :], (m, d))
