"""Sums over the tokens of an example under embedding and attention dropout.

With embedding dropout every token of every example is a different vector, x = keep o (E_b + P_t),
so the tables of the collapse do not exist. Two savings remain (ours): scores need U = W_K q only,
one vector per head, and pooling comes before W_V. With LayerNorm's factor r and centring C,

    y_t = r_t C x_t,   s_t = U . y_t = r_t (C U) . x_t,   w_t = exp(s_t - mu),
    N = sum_t a_t w_t y_t = C sum_t (a_t w_t r_t) x_t,   A = sum_t a_t w_t,   L = sum_t w_t

for every head, where a is the mask of the attention. LayerNorm cancels the scale 1/(1 - p) of kept
numbers, if its epsilon is multiplied by (1 - p)^2. Every example has its own U, because the query
is its own dropped [CLS]. Per token 2 d H products, no array of size T^2.

With attention dropout alone the tables exist: (symbol, position) determines score and value, and
the mask only selects the weights in N and A.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, UInt8

from capax.attention.block import LAYER_NORM_EPSILON
from capax.attention.collapsed.design import matmul
from capax.attention.collapsed.one_layer_table import table
from capax.training.dropout.dropout_masks import EMBEDDING, Masks
from capax.training.specs.trial_specs import DropoutSpec


class TokenSums(NamedTuple):
    """N before its last centring, A, L and mu of all tokens but [CLS], for each head."""

    pooled: Float[Array, "m H d"]
    kept: Float[Array, "m H"]
    total: Float[Array, "m H"]
    mu: Float[Array, "m H"]


def scaled_epsilon(rate: float) -> float:
    """LayerNorm's epsilon for vectors whose kept numbers are not scaled up."""
    return LAYER_NORM_EPSILON * (1.0 - rate) ** 2


def token_sums(
    position: Float[Array, "d T"],
    embed: Float[Array, "A d"],
    U: Float[Array, "m H d"],
    bits: UInt8[Array, "m T"],
    masks: Masks,
    dropout: DropoutSpec,
    layer_norm: bool,
) -> TokenSums:
    """The sums, example after example; the backward pass recomputes masks and tokens.

    U is centred in a model with LayerNorm. No gradient flows through mu.
    """
    (d, T), (m, H, _) = position.shape, U.shape

    @jax.checkpoint
    def one(inputs: tuple[Array, Array, Array]) -> TokenSums:
        example, symbols, u = inputs
        x = embed[symbols] + position.T
        if dropout.embedding:
            places = jnp.arange(T, dtype=jnp.int32)
            kept = masks.columns(EMBEDDING, dropout.embedding, example, places, d)
            x = jnp.where(kept, x if layer_norm else x / (1.0 - dropout.embedding), 0.0)
        r = jnp.ones(T, x.dtype)
        if layer_norm:
            centred = x - jnp.mean(x, axis=1, keepdims=True)
            epsilon = scaled_epsilon(dropout.embedding)
            r = lax.rsqrt(jnp.mean(jnp.square(centred), axis=1) + epsilon)
        s = matmul(u, x, 1, 1) * r[None, :]  # [H, T]
        mu = lax.stop_gradient(jnp.max(s, axis=1))
        w = jnp.exp(s - mu[:, None])
        a = w
        if dropout.attention:
            a = jnp.where(masks.heads(dropout.attention, example, T + 1, H)[:, :T], w, 0.0)
        pooled = matmul(a * r[None, :], x, 1, 0)
        return TokenSums(pooled, jnp.sum(a, axis=1), jnp.sum(w, axis=1), mu)

    return lax.map(one, (jnp.arange(m, dtype=jnp.int32), bits.astype(jnp.int32), U))


def collapsed_sums(
    position: Float[Array, "d T"],
    embed: Float[Array, "A d"],
    W: Float[Array, "k_1 H d"],
    g_cls: Float[Array, "H"],
    bits: UInt8[Array, "m T"],
    masks: Masks,
    rate: float,
    layer_norm: bool,
) -> tuple[Float[Array, "m k H"], Float[Array, "m H"], Float[Array, "m H"], Float[Array, "H"]]:
    """Attention dropout alone: weighted values, kept and whole weights, mu, from the table."""
    columns, H, _ = W.shape
    S, mu, _ = table(position, embed, W, g_cls, ln=layer_norm)
    T = bits.shape[1]

    @jax.checkpoint
    def one(inputs: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        example, symbols = inputs
        chosen = jnp.take_along_axis(S, symbols[None, None, :], axis=1)[:, 0]  # [(k+1) H, T]
        chosen = chosen.reshape(columns, H, T)
        kept = masks.heads(rate, example, T + 1, H)[:, :T]
        masked = jnp.sum(jnp.where(kept[None], chosen, jnp.zeros_like(chosen)), axis=2)
        return masked[:-1], masked[-1], jnp.sum(chosen[-1], axis=1)

    values, kept, total = lax.map(
        one, (jnp.arange(len(bits), dtype=jnp.int32), bits.astype(jnp.int32))
    )
    return values, kept, total, mu
