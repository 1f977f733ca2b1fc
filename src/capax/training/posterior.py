"""A network and its prior: the prior trained on part of the data, the network further on all data.

PAC-Bayes bounds depend on the distance of the weights from a point that does not depend on the
examples in the bound. The prior is trained on the first `prior_size` examples; the posterior starts
at the prior and is trained on all. Few further steps at a tenth of the rate keep it near: the bound
has the term |theta - theta_0|^2 / 2 sigma^2.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num

from capax.attention.transformer import Transformer, TransformerSpec
from capax.errors import require
from capax.training.specs.trial_specs import OptimiserSpec
from capax.training.steps.objective import cross_entropy
from capax.training.steps.optimiser import rule_of, transformation

NEAR = 0.1  # factor on the learning rate after the prior


@dataclass(frozen=True)
class PriorAndPosterior:
    """`prior`: trained on the first `prior_size` examples; `posterior`: from there on all."""

    prior: Transformer
    posterior: Transformer
    prior_size: int


def train_prior_and_posterior(
    spec: TransformerSpec,
    X: Num[np.ndarray, "m T"],
    y: Num[np.ndarray, "m"],
    *,
    prior_size: int,
    key: Array,
    optimiser: OptimiserSpec = OptimiserSpec(),
    steps: int = 300,
    posterior_steps: int = 30,
) -> PriorAndPosterior:
    """Full-batch training of a prior on X[:prior_size] and, from there, of a posterior on X.

    Raises `InputError` for data that does not fit the spec, or a prior trained on all examples (no
    example would be left for the bound).
    """
    require(X.shape[1] == spec.T, "X", f"{spec.T} columns", X.shape)
    require(0 < prior_size < len(y), "prior_size", f"between 1 and {len(y) - 1}", prior_size)
    require(steps >= 0 and posterior_steps >= 0, "steps", "numbers >= 0", (steps, posterior_steps))
    start = Transformer.init(spec, key=key)
    bits, labels = jnp.asarray(X, jnp.int32), jnp.asarray(y, jnp.float32)
    seen = jnp.asarray(np.arange(len(y)) < prior_size, jnp.float32)

    def go_on(model: Transformer, mask: Array, number: int, rate: float) -> Transformer:
        plan = (jnp.int32(number), jnp.float32(optimiser.lr * rate))
        return _trained(model, bits, labels, mask, *plan, optimiser)

    prior = go_on(start, seen, steps, 1.0)
    posterior = go_on(prior, jnp.ones_like(seen), posterior_steps, NEAR)
    return PriorAndPosterior(prior, posterior, prior_size)


@eqx.filter_jit
def _trained(
    model: Transformer,
    X: Int[Array, "m T"],
    y: Float[Array, "m"],
    mask: Float[Array, "m"],
    steps: Int[Array, ""],
    lr: Float[Array, ""],
    optimiser: OptimiserSpec,
) -> Transformer:
    """`steps` steps on the examples that the mask keeps; one program for prior and posterior."""
    length = jnp.maximum(steps, 1).astype(jnp.float32)
    update = transformation(rule_of(optimiser), lr, optimiser.weight_decay, length)
    parameters, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(parameters: Transformer) -> Float[Array, ""]:
        network: Any = eqx.combine(parameters, static)
        return cross_entropy(jax.vmap(network)(X), y, mask)

    def step(_: Array, carry: tuple) -> tuple:
        parameters, state = carry
        slopes = jax.grad(loss)(parameters)
        with jax.numpy_dtype_promotion("standard"):  # Optax adds counters to rates of another type
            changes, after = update.update(slopes, state, parameters)
            moved = jax.tree.map(lambda p, c: (p + c).astype(p.dtype), parameters, changes)
        return moved, jax.tree.map(lambda old, new: new.astype(old.dtype), state, after)

    carry = (parameters, update.init(parameters))
    return eqx.combine(jax.lax.fori_loop(0, steps, step, carry)[0], static)
