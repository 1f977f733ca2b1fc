"""Masks (True = keep): a mask of keys is the same as deleting the other tokens."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from capax.errors import require

Mask = Bool[Array, "..."] | None


def hide(scores: Float[Array, "*batch T"], mask: Mask) -> Float[Array, "*batch T"]:
    """Scores with -inf where the mask is False; the mask is broadcast to the scores."""
    if mask is None:
        return scores
    return jnp.where(jnp.broadcast_to(mask, scores.shape), scores, -jnp.inf)


def causal_mask(T: int) -> Bool[Array, "T T"]:
    """mask[i, t] = (t <= i): query i sees itself and the tokens before it."""
    require(T >= 1, "T", "at least one token", T)
    return jnp.tril(jnp.ones((T, T), dtype=bool))


def padding_mask(T: int, length: int) -> Bool[Array, "T"]:
    """mask[t] = (t < length): the tokens after `length` are padding."""
    require(0 <= length <= T, "length", f"a number from 0 to T = {T}", length)
    return jnp.arange(T) < length


def keep_cls(mask: Bool[Array, "T"] | None) -> Bool[Array, "T_1"] | None:
    """The mask of T tokens, extended by the [CLS] token, which is always kept."""
    if mask is None:
        return None
    return jnp.concatenate([mask, jnp.ones((1,), dtype=bool)])
