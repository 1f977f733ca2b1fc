"""Functions that take all lanes of an ensemble in one call under `vmap`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array


def spread(size: int, batched: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a rule for `vmap`, each with an axis of `size` lanes."""

    def whole(x: Array, is_batched: bool) -> Array:
        return x if is_batched else jnp.broadcast_to(x[None], (size, *x.shape))

    return jax.tree.map(whole, arguments, tuple(batched))


def one_launch(launch: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one lane from `launch`, which takes and gives a stack of lanes: under `vmap`
    all lanes share one call of it."""

    @custom_vmap
    def call(*arguments: Any) -> Any:
        one = launch(*jax.tree.map(lambda x: x[None], arguments))
        return jax.tree.map(lambda x: x[0], one)

    @call.def_vmap
    def together(size: int, batched: Any, *arguments: Any) -> Any:
        new = launch(*spread(size, batched, arguments))
        return new, jax.tree.map(lambda _: True, new)

    return call
