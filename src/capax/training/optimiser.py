"""From an `OptimiserSpec` to an Optax transformation whose rates may be traced values.

The rule is part of the compiled program; `lr`, `weight_decay` and the length of the schedule are
inputs, so that runs with different rates share one program.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from capax.training.specs import OptimiserSpec

Rate = Float[Array, ""] | float


def rule_of(spec: OptimiserSpec) -> OptimiserSpec:
    """The part of the spec that a program is compiled for: all but the rates."""
    return spec.model_copy(update={"lr": 1.0, "weight_decay": 0.0})


def transformation(
    rule: OptimiserSpec, lr: Rate, weight_decay: Rate, steps: Rate
) -> optax.GradientTransformation:
    """The Optax transformation of `rule` with these rates over a run of `steps` steps."""
    rate = _scheduled(rule, lr, steps)
    if rule.name == "sgd":
        return optax.sgd(rate, momentum=rule.momentum)
    decay = [] if rule.name == "adam" else [optax.add_decayed_weights(weight_decay)]
    return optax.chain(_scale_by_adam(rule), *decay, optax.scale_by_learning_rate(rate))


def _scale_by_adam(rule: OptimiserSpec) -> optax.GradientTransformation:
    """`optax.scale_by_adam` with both bias corrections as scalar factors.

    m/(1 - b1^t) / (sqrt(v/(1 - b2^t)) + eps) divides three times per parameter; pulled out of the
    root, one division is left: on a CPU the update is then half as long.
    """

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        count = state.count + 1
        mu = jax.tree.map(lambda g, m: (1 - rule.b1) * g + rule.b1 * m, updates, state.mu)
        nu = jax.tree.map(lambda g, v: (1 - rule.b2) * g**2 + rule.b2 * v, updates, state.nu)
        first = 1 / (1 - rule.b1**count)
        second = 1 / jnp.sqrt(1 - rule.b2**count)
        scaled = jax.tree.map(lambda m, v: first * m / (second * jnp.sqrt(v) + rule.eps), mu, nu)
        return scaled, optax.ScaleByAdamState(count=count, mu=mu, nu=nu)

    return optax.GradientTransformation(optax.scale_by_adam().init, update)


def _scheduled(rule: OptimiserSpec, lr: Rate, steps: Rate) -> Rate | Callable[[Any], Any]:
    if rule.schedule == "constant" and rule.warmup == 0:
        return lr

    def rate(count: Array) -> Array:
        done = jnp.asarray(count, jnp.float32)
        part = jnp.clip((done - rule.warmup) / (steps - rule.warmup), 0.0, 1.0)
        fade = {
            "constant": jnp.ones_like(part),
            "linear": 1.0 - part,
            "cosine": 0.5 * (1.0 + jnp.cos(jnp.pi * part)),
        }[rule.schedule]
        warm = jnp.minimum(1.0, (done + 1.0) / rule.warmup) if rule.warmup else 1.0
        return lr * warm * fade

    return rate
