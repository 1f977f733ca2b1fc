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

from capax.training.specs.trial_specs import OptimiserSpec

Rate = Float[Array, ""] | float


def rule_of(spec: OptimiserSpec) -> OptimiserSpec:
    """The part of the spec that is compiled into a program: all fields but the rates."""
    return spec.model_copy(update={"lr": 1.0, "weight_decay": 0.0})


def transformation(
    rule: OptimiserSpec, lr: Rate, weight_decay: Rate, steps: Rate
) -> optax.GradientTransformation:
    """The Optax transformation of `rule` with these rates over a run of `steps` steps."""
    rate = _scheduled(rule, lr, steps)
    clip = [] if rule.clip is None else [_clipped(rule.clip)]
    if rule.name == "sgd":
        sgd = optax.sgd(rate, momentum=rule.momentum)
        return optax.chain(*clip, sgd) if clip else sgd
    decay = [_decayed(weight_decay, rule.decayed)]
    before = decay if rule.decay == "coupled" else []
    after = decay if rule.name == "adamw" else []
    return optax.chain(
        *clip, *before, _scale_by_adam(rule), *after, optax.scale_by_learning_rate(rate)
    )


def _clipped(norm: float) -> optax.GradientTransformation:
    """Gradients of at most this norm, as PyTorch's `clip_grad_norm_` scales them."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        squares = [jnp.sum(jnp.square(g)) for g in jax.tree.leaves(updates)]
        factor = jnp.minimum(norm / (jnp.sqrt(jnp.sum(jnp.stack(squares))) + 1e-6), 1.0)
        return jax.tree.map(lambda g: factor * g, updates), state

    return optax.GradientTransformation(optax.init_empty_state, update)


_LINEAR = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "w", "w_0")
"""Weights of linear maps by their name, including the read-out; minGPT decays these alone."""


def _decayed(weight_decay: Rate, which: str) -> optax.GradientTransformation:
    """`weight_decay` times the parameters, or times the weights of linear maps, is added."""
    if which == "all":
        return optax.add_decayed_weights(weight_decay)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        def add(path: Any, g: Array, p: Array) -> Array:
            name = jax.tree_util.keystr(path[-1:], simple=True)
            return g + weight_decay * p if name in _LINEAR else g

        return jax.tree_util.tree_map_with_path(add, updates, params), state

    return optax.GradientTransformation(optax.init_empty_state, update)


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
        first, second = _corrections(rule, count)
        scaled = jax.tree.map(lambda m, v: first * m / (second * jnp.sqrt(v) + rule.eps), mu, nu)
        return scaled, optax.ScaleByAdamState(count=count, mu=mu, nu=nu)

    return optax.GradientTransformation(optax.scale_by_adam().init, update)


def _corrections(rule: OptimiserSpec, count: Array) -> tuple[Array, Array]:
    """Factors on the first moment and on the root of the second, after `count` steps."""
    return 1 / (1 - rule.b1**count), 1 / jnp.sqrt(1 - rule.b2**count)


def moments(state: Any) -> tuple[Any, Any]:
    """First and second moments out of the state of an Adam transformation."""
    return state[0].mu, state[0].nu


def adam_rates(
    rule: OptimiserSpec, lr: Rate, weight_decay: Rate, steps: Rate, state: Any
) -> Float[Array, "4"]:
    """All numbers of the next step of Adam: both bias corrections, the rate, the weight decay."""
    rate = _scheduled(rule, lr, steps)
    now = rate(state[-1].count) if callable(rate) else rate
    with jax.numpy_dtype_promotion("standard"):
        first, second = _corrections(rule, state[0].count + 1)
    decay = 0.0 if rule.name == "adam" else weight_decay
    return jnp.stack([jnp.asarray(x, jnp.float32) for x in (first, second, now, decay)])


def after_adam(state: Any, first: Any, second: Any) -> Any:
    """The state one step later, with these moments."""
    adam = optax.ScaleByAdamState(count=state[0].count + 1, mu=first, nu=second)
    last = state[-1]
    if isinstance(last, optax.ScaleByScheduleState):
        last = optax.ScaleByScheduleState(count=last.count + 1)
    return (adam, *state[1:-1], last)


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
