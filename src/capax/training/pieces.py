"""Gradients as sums over pieces of the examples: a lane costs what its own m costs.

One program then serves a search over a wide range of m, and no more than a piece of the activations
is ever kept. Where many lanes go together (`vmap`), a loop that runs until the largest m is done
would let all the others compute nothing that often. Instead, for i = 0, 1, ..: the lanes that have
an i-th piece, and only those, some at a time. A lane adds its pieces in the same order, whoever
else is there.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array

from capax.training.paths import Path

_TOKENS = 1 << 19  # in the pieces that are worked on together: enough to keep a GPU busy


def in_pieces(path: Path, block: int, at_once: int = 0) -> Callable[[Any, Any], Any]:
    """params, (inputs, y, mask) -> the gradient of the mean loss over rows with mask 1.

    The number of rows is a multiple of `block`, and those with mask 1 come first. at_once: lanes
    whose pieces are worked on together; 0: as many as are worth it, fewer where inputs are long.
    """
    at_once = at_once or max(16, _TOKENS // (block * path.spec.T))

    def part(params: Any, batch: Any) -> Array:
        inputs, y, mask = batch
        z = path.logits(params, inputs)
        return jnp.sum(mask * (jnp.logaddexp(z, jnp.zeros_like(z)) - y * z))

    def cut(batch: Any, axis: int) -> Any:
        def one(x: Array) -> Array:
            return x.reshape(*x.shape[:axis], -1, block, *x.shape[axis + 1 :])

        return jax.tree.map(one, batch)

    @custom_vmap
    def descent(params: Any, batch: Any) -> Any:
        total, pieces = jnp.sum(batch[2]), cut(batch, 0)

        def add(i: Array, sum_: Any) -> Any:
            piece = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, i, keepdims=False), pieces)
            return jax.tree.map(jnp.add, sum_, jax.grad(part)(params, piece))

        zero = jax.tree.map(jnp.zeros_like, params)
        whole = lax.fori_loop(jnp.int32(0), _pieces(total, block), add, zero)
        return _divided(whole, total)

    @descent.def_vmap
    def together(size: int, batched: Any, params: Any, batch: Any) -> Any:
        def spread(x: Array, is_batched: bool) -> Array:
            return x if is_batched else jnp.broadcast_to(x[None], (size, *x.shape))

        params, batch = jax.tree.map(spread, (params, batch), tuple(batched))
        total, pieces = jnp.sum(batch[2], axis=1), cut(batch, 1)
        needed, width = _pieces(total, block), min(at_once, size)
        order = jnp.argsort(-needed)  # lanes with an i-th piece come first, whatever i is
        order = jnp.pad(order, (0, -size % width), constant_values=size)  # nobody's lane

        parts = -(-_with_piece(needed, pieces[2].shape[1]) // width)
        ends = jnp.cumsum(parts, dtype=jnp.int32)  # one loop over (i, part): a GPU waits at each

        def add(number: Array, sums: Any) -> Any:
            i = jnp.searchsorted(ends, number, side="right")
            first = (number - ends[i] + parts[i]) * width
            lanes = lax.dynamic_slice(order, (first,), (width,))
            chosen = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), params)
            piece = jax.tree.map(lambda x: x.at[lanes, i].get(mode="clip"), pieces)
            new = jax.vmap(jax.grad(part))(chosen, piece)
            put = lambda sum_, x: sum_.at[lanes].add(x, mode="drop", unique_indices=True)  # noqa: E731
            return jax.tree.map(put, sums, new)

        zero = jax.tree.map(jnp.zeros_like, params)
        whole = lax.fori_loop(jnp.int32(0), ends[-1], add, zero)
        return _divided(whole, total), jax.tree.map(lambda _: True, whole)

    return descent


def _pieces(total: Array, block: int) -> Array:
    """How many pieces so many examples are."""
    return jnp.ceil(total / block).astype(jnp.int32)


def _with_piece(needed: Array, most: int) -> Array:
    """How many lanes have an i-th piece, for each i."""
    numbers = jnp.arange(most, dtype=jnp.int32)
    return jnp.sum(needed[None, :] > numbers[:, None], axis=1, dtype=jnp.int32)


def _divided(sums: Any, total: Array) -> Any:
    """Means from sums; an idle lane has no examples and stays where it is."""
    number = jnp.maximum(total, 1.0)

    def mean(x: Array) -> Array:
        return x / number.reshape(*number.shape, *(1,) * (x.ndim - number.ndim))

    return jax.tree.map(mean, sums)
