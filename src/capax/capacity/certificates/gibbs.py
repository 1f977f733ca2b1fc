"""The Gibbs predictor of a network: how often networks drawn around it are wrong.

Q = N(theta, sigma^2 I) around the trained parameters theta; the prior N(theta_0, sigma^2 I) around
the parameters of another network, trained on other examples. A draw has the weights' precision:
the predictor *is* the computation, randomness and rounding included, so rounding has no term here.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Num

from capax.capacity.certificates.pac_bayes import SIGMAS, GibbsErrors
from capax.capacity.margins.decision import threshold_of
from capax.errors import require

DRAWS = 1000
BATCH = 2_000_000  # entries of (draws x examples) evaluated at once


def distance_squared(model: Any, prior: Any) -> float:
    """|theta - theta_0|^2 over all floating-point parameters, rounded up."""
    left, right = (_leaves(module) for module in (model, prior))
    same = [a.shape for a in left] == [b.shape for b in right] and type(model) is type(prior)
    require(same, "prior", "a network of the same shape as the model", "another shape")
    total = sum(float(((a - b) ** 2).sum()) for a, b in zip(left, right, strict=True))
    count = sum(a.size for a in left)
    return total * (1 + 2.0**-50 * (count + 4))


def gibbs_errors(
    model: Any,
    prior: Any,
    X: Num[np.ndarray, "n T"],
    y: Num[np.ndarray, "n"],
    *,
    key: Array,
    sigmas: tuple[float, ...] = SIGMAS,
    draws: int = DRAWS,
) -> GibbsErrors:
    """Sampled training errors of N(model, sigma^2 I) for every sigma; n examples unseen by prior.

    A draw is wrong on an example when its output is not on the label's side of the threshold.
    """
    require(len(X) == len(y) > 0, "y", f"{len(X)} labels", y.shape)
    distance = distance_squared(model, prior)
    parameters, static = eqx.partition(model, eqx.is_inexact_array)
    theta, rebuild = ravel_pytree(parameters)
    signs = jnp.asarray(2 * y.astype(np.int32) - 1, theta.dtype)
    bits, threshold = jnp.asarray(X.astype(np.int32)), threshold_of(model)
    chunk = max(1, min(draws, BATCH // len(y)))

    @jax.jit
    def wrong(key: Array, sigma: Array) -> Array:
        noise = jax.random.normal(key, (chunk, theta.size), theta.dtype)

        def count(step: Array) -> Array:
            drawn = eqx.combine(rebuild(theta + sigma * step), static)
            right = (jax.vmap(lambda row: drawn(row))(bits) - threshold) * signs > 0
            return jnp.sum(~right, dtype=jnp.int32)

        return jax.lax.map(count, noise, batch_size=16)

    errors = []
    for sigma, own in zip(sigmas, jax.random.split(key, len(sigmas)), strict=True):
        rounds = -(-draws // chunk)
        parts = [wrong(k, jnp.asarray(sigma, theta.dtype)) for k in jax.random.split(own, rounds)]
        errors.append(float(np.concatenate([np.asarray(p) for p in parts]).mean()) / len(y))
    return GibbsErrors(distance, tuple(sigmas), tuple(errors), rounds * chunk, len(y))


def _leaves(module: Any) -> list[np.ndarray]:
    leaves = jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))
    return [np.asarray(leaf, np.float64) for leaf in leaves]
