"""alpha-entmax: the maps between softmax (alpha = 1) and sparsemax (alpha = 2), as pure functions.

entmax_alpha(theta)_t = max(0, (alpha - 1) theta_t - tau)^(1/(alpha-1)), tau such that the sum is 1.
On the support its Jacobian is J = diag(s) - s s^T / |s|_1 with s_t = a_t^(2 - alpha).
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

_BISECTIONS = 64


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def entmax(scores: Float[Array, "*batch T"], alpha: float) -> Float[Array, "*batch T"]:
    """alpha-entmax over the last axis, 1 < alpha <= 2; scores of -inf get weight 0.

    tau is found by bisection: the largest score alone gives a sum of at least 1 at
    tau = max - 1, and T equal scores give at most 1 at tau = max - T^(1 - alpha).
    """
    z = (alpha - 1.0) * scores
    peak = jnp.max(z, axis=-1, keepdims=True)
    z = z - jnp.where(jnp.isfinite(peak), peak, jnp.zeros_like(peak))
    low = jnp.full_like(peak, -1.0)
    high = jnp.full_like(peak, -(scores.shape[-1] ** (1.0 - alpha)))

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        heavy = jnp.sum(_powers(z, middle, alpha), axis=-1, keepdims=True) >= 1
        return jnp.where(heavy, middle, low), jnp.where(heavy, high, middle)

    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (low, high))
    weights = _powers(z, (low + high) / 2, alpha)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    return weights / jnp.where(total > 0, total, jnp.ones_like(total))


def _powers(
    z: Float[Array, "*batch T"], tau: Float[Array, "*batch 1"], alpha: float
) -> Float[Array, "*batch T"]:
    return jnp.maximum(z - tau, 0.0) ** (1.0 / (alpha - 1.0))


@entmax.defjvp
def _entmax_jvp(alpha: float, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (scores,), (direction,) = primals, tangents
    weights = entmax(scores, alpha)
    support = weights > 0
    safe = jnp.where(support, weights, jnp.ones_like(weights))
    s = jnp.where(support, safe ** (2.0 - alpha), jnp.zeros_like(weights))
    mass = jnp.sum(s, axis=-1, keepdims=True)
    mean = jnp.sum(s * direction, axis=-1, keepdims=True) / jnp.where(
        mass > 0, mass, jnp.ones_like(mass)
    )
    return weights, s * (direction - mean)


def sparsemax(scores: Float[Array, "*batch T"]) -> Float[Array, "*batch T"]:
    """Euclidean projection of the scores onto the simplex: alpha-entmax with alpha = 2."""
    return entmax(scores, 2.0)
