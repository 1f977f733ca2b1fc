"""From an `OptimiserSpec` to an Optax transformation whose rates may be traced values.

The rule is part of the compiled program; `lr`, `weight_decay` and the length of the schedule are
inputs, so that runs with different rates share one program.
"""

from collections.abc import Callable
from typing import Any

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
    adam = {"b1": rule.b1, "b2": rule.b2, "eps": rule.eps}
    if rule.name == "adam":
        return optax.adam(rate, **adam)
    return optax.adamw(rate, weight_decay=weight_decay, **adam)


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
