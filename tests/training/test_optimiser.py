"""The update rules against Optax's own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from capax.training import OptimiserSpec
from capax.training.steps.optimiser import transformation

OPTAX = {
    "adam": optax.adam(0.03, b1=0.8, b2=0.95, eps=1e-6),
    "adamw": optax.adamw(0.03, b1=0.8, b2=0.95, eps=1e-6, weight_decay=0.1),
    "sgd": optax.sgd(0.03, momentum=0.7),
}


def path_of(optimiser, steps=30):
    """Parameters after some steps on a crooked quadratic, in float64."""
    scale = jnp.array([1.0, 30.0, 1e-3])

    def step(carry, _):
        params, state = carry
        gradient = jax.grad(lambda p: jnp.sum(scale * (p["a"] - 1.0) ** 2) + p["b"] ** 4)(params)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser.update(gradient, state, params)
        return (jax.tree.map(jnp.add, params, updates), state), params["a"]

    params = {"a": jnp.zeros(3), "b": jnp.asarray(0.5)}
    (last, _), way = jax.lax.scan(step, (params, optimiser.init(params)), length=steps)
    return np.asarray(way), float(last["b"])


@pytest.mark.parametrize("name", OPTAX)
def test_every_rule_is_that_of_optax(name):
    rule = OptimiserSpec(name=name, b1=0.8, b2=0.95, eps=1e-6, momentum=0.7)
    ours = path_of(transformation(rule, 0.03, 0.1, 1.0))
    theirs = path_of(OPTAX[name])
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    assert abs(ours[1] - theirs[1]) < 1e-12
