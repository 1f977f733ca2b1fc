"""Gradients as sums over pieces of the examples: a lane costs what its own m costs.

One program then serves a search over a wide range of m, and no more than a piece of the activations
is ever kept. Where many lanes go together (`vmap`), a loop that runs until the largest m is done
would let all the others compute nothing that often. Instead, a few places work on one piece each,
whosever it is, and all pieces are shared out among them.

Pieces are to places what jobs that may be interrupted are to machines, and McNaughton's rule (1959)
shares them out in the least number of rounds, R = max(most pieces of a lane, all pieces / places):
write all pieces in a row, lane by lane, and cut the row into stretches of R, one for each place. A
lane that is cut has pieces at the end of one stretch and at the beginning of the next. It has at
most R of them, so no two in the same round. The pieces that are worked on in earlier rounds are
taken to be its first ones: then a lane adds its pieces in the same order, whoever else is there.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Int

from capax.training.paths import Path
from capax.training.together import spread

PLACES = 48  # pieces that are worked on together: a GPU is busy, and few places stay empty


def in_pieces(path: Path, block: int, places: int = PLACES) -> Callable[[Any, Any], Any]:
    """params, (inputs, y, mask) -> the gradient of the mean loss over rows with mask 1.

    The number of rows is a multiple of `block`, and those with mask 1 come first. places: pieces
    that are worked on together.
    """

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
        params, batch = spread(size, batched, (params, batch))
        total, pieces = jnp.sum(batch[2], axis=1), cut(batch, 1)
        rounds, whose = shared_out(_pieces(total, block), min(places, size))

        def add(number: Array, sums: Any) -> Any:
            lanes, i = whose(number)
            chosen = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), params)
            piece = jax.tree.map(lambda x: x.at[lanes, i].get(mode="clip"), pieces)
            new = jax.vmap(jax.grad(part))(chosen, piece)
            put = lambda sum_, x: sum_.at[lanes].add(x, mode="drop", unique_indices=True)  # noqa: E731
            return jax.tree.map(put, sums, new)

        zero = jax.tree.map(jnp.zeros_like, params)
        whole = lax.fori_loop(jnp.int32(0), rounds, add, zero)
        return _divided(whole, total), jax.tree.map(lambda _: True, whole)

    return descent


def _pieces(total: Array, block: int) -> Array:
    """How many pieces so many examples are."""
    return jnp.ceil(total / block).astype(jnp.int32)


def shared_out(
    needed: Int[Array, "lanes"], places: int
) -> tuple[Int[Array, ""], Callable[[Array], tuple[Array, Array]]]:
    """The number of rounds, and for each round the lane of every place and which of its pieces.

    A place without work has a lane that does not exist, another one for each place.
    """
    ends = jnp.cumsum(needed, dtype=jnp.int32)
    rounds = jnp.maximum(jnp.max(needed), -(-ends[-1] // places))
    stretches = jnp.arange(places, dtype=jnp.int32)

    def whose(number: Array) -> tuple[Array, Array]:
        at = stretches * rounds + number
        lane = jnp.searchsorted(ends, at, side="right").astype(jnp.int32)
        end = ends.at[lane].get(mode="clip")
        begin = end - needed.at[lane].get(mode="clip")
        cut = (end - 1) // rounds * rounds  # where the stretch begins in which the lane ends
        is_cut = begin < cut
        i = jnp.where(
            is_cut & (at < cut), end - cut + at - begin, at - jnp.where(is_cut, cut, begin)
        )
        return jnp.where(lane < len(needed), lane, len(needed) + stretches), i

    return rounds, whose


def _divided(sums: Any, total: Array) -> Any:
    """Means from sums; an idle lane has no examples and stays where it is."""
    number = jnp.maximum(total, 1.0)

    def mean(x: Array) -> Array:
        return x / number.reshape(*number.shape, *(1,) * (x.ndim - number.ndim))

    return jax.tree.map(mean, sums)
