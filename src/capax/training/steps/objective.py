"""The loss and the accuracy, over the examples that the mask keeps."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def cross_entropy(
    logits: Float[Array, "m"], y: Float[Array, "m"], mask: Float[Array, "m"]
) -> Float[Array, ""]:
    """Mean logistic loss over the kept examples."""
    return jnp.sum(mask * binary_losses(logits, y)) / jnp.sum(mask)


def binary_losses(logits: Float[Array, "m"], y: Float[Array, "m"]) -> Float[Array, "m"]:
    """log(1 + e^z) - y z for each logit z."""
    return jnp.logaddexp(logits, jnp.zeros_like(logits)) - y * logits


def accuracy(
    logits: Float[Array, "m"], y: Float[Array, "m"], mask: Float[Array, "m"]
) -> Float[Array, ""]:
    """Share of kept examples on the right side of 0."""
    right = (logits > 0) == (y > 0.5)
    return jnp.sum(mask * right.astype(mask.dtype)) / jnp.sum(mask)
