"""Gradients and answers in pieces of the examples: the cost of a lane depends on its own m.

One program then serves a search over a wide range of m, and activations of one piece only are kept.
If many lanes run together (`vmap`), a loop up to the largest m would leave all other lanes idle.
Instead, a few places compute one piece each, of any lane, and all pieces are divided among them:
an idle lane has no pieces.

All pieces form a list, lane by lane, and every round takes the next ones, one for each place. A
lane may have several in one round, so the result of a piece is kept until the end, and each lane
then adds its own pieces in order: the same sum, to the last bit, for all other lanes.

A single lane (a core of a CPU) has pieces of two sizes, so many of each that the fewest rows are
computed: with 64 and 112, 100 examples are one piece of 112 rows, and 300 are 112 + 3 x 64 = 304.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int, Num

from capax.training.steps.paths import Path
from capax.training.steps.together import spread


def in_pieces(
    path: Path, block: int, larger: int = 0, places: int = 1
) -> Callable[[Any, Any], Any]:
    """params, (inputs, y, mask) -> the gradient of the mean loss over rows with mask 1.

    The number of rows is a multiple of `block`, and those with mask 1 come first. larger: the size
    of the larger pieces of a lane alone, 0 for none. places: pieces of any lanes that are worked on
    together.
    """

    def part(params: Any, batch: Any) -> Array:
        inputs, y, mask = batch
        z = path.logits(params, inputs)
        return jnp.sum(mask * (jnp.logaddexp(z, jnp.zeros_like(z)) - y * z))

    @custom_vmap
    def descent(params: Any, batch: Any) -> Any:
        return _alone(jax.grad(part), block, larger, params, batch)

    @descent.def_vmap
    def together(size: int, batched: Any, params: Any, batch: Any) -> Any:
        params, batch = spread(size, batched, (params, batch))
        total = jnp.sum(batch[2], axis=1)
        pieces = _cut(batch, size, block)
        needed, most = _pieces(total, block), pieces[2].shape[1]

        def gradients(lanes: Array, i: Array) -> Any:
            return jax.vmap(jax.grad(part))(*_chosen(lanes, i, params, pieces))

        kept = in_rounds(gradients, needed, most, places)
        whole = jax.tree.map(lambda x: summed(x, needed, most), kept)
        return _divided(whole, total), jax.tree.map(lambda _: True, whole)

    return descent


def answers_in_pieces(path: Path, block: int, places: int) -> Callable[[Any, Any, Any], Array]:
    """params, inputs, mask -> logits, in the same pieces; where lanes run together, of the pieces
    with examples only (0 elsewhere)."""

    @custom_vmap
    def answers(params: Any, inputs: Any, mask: Any) -> Any:
        del mask
        pieces = jax.tree.map(lambda x: x.reshape(-1, block, *x.shape[1:]), inputs)
        return lax.map(lambda piece: path.logits(params, piece), pieces).reshape(-1)

    @answers.def_vmap
    def together(size: int, batched: Any, *arguments: Any) -> Any:
        params, inputs, mask = spread(size, batched, arguments)
        pieces = _cut(inputs, size, block)
        needed, most = _pieces(jnp.sum(mask, axis=1), block), mask.shape[1] // block

        def logits(lanes: Array, i: Array) -> Array:
            return jax.vmap(path.logits)(*_chosen(lanes, i, params, pieces))

        kept = in_rounds(logits, needed, most, places)
        return by_lane(kept, needed, most).reshape(size, -1), True

    return answers


def in_rounds(
    compute: Callable[[Array, Array], Any], needed: Int[Array, "lanes"], most: int, places: int
) -> Any:
    """`compute(lanes, i)` of all pieces, `places` at a time: the results, in the order of the list.

    compute: from the lanes of some pieces and their numbers to arrays with a row for each. needed:
    the pieces of every lane, at most `most`.
    """
    at_once = min(places, len(needed) * most)
    rounds = -(-jnp.sum(needed, dtype=jnp.int32) // at_once)

    def now(number: Array) -> Any:
        at = number * at_once + jnp.arange(at_once, dtype=jnp.int32)
        return compute(*whose(needed, at))

    def work(number: Array, kept: Any) -> Any:
        put = partial(lax.dynamic_update_slice_in_dim, start_index=number * at_once, axis=0)
        return jax.tree.map(put, kept, now(number))

    longest = -(-len(needed) * most // at_once) * at_once
    shapes = jax.eval_shape(now, jax.ShapeDtypeStruct((), jnp.int32))
    room = jax.tree.map(lambda x: jnp.zeros((longest, *x.shape[1:]), x.dtype), shapes)
    return lax.fori_loop(jnp.int32(0), rounds, work, room)


def _cut(batch: Any, size: int, block: int) -> Any:
    """The rows of every lane in pieces."""
    return jax.tree.map(lambda x: x.reshape(size, -1, block, *x.shape[2:]), batch)


def _chosen(lanes: Array, i: Array, params: Any, pieces: Any) -> tuple[Any, Any]:
    """The parameters of these lanes, and piece number i of each."""
    own = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), params)
    return own, jax.tree.map(lambda x: x.at[lanes, i].get(mode="clip"), pieces)


def _alone(
    gradient: Callable[[Any, Any], Any], block: int, larger: int, params: Any, batch: Any
) -> Any:
    """One lane: its larger pieces, then the others."""
    total = jnp.sum(batch[2])
    whole, done = jax.tree.map(jnp.zeros_like, params), jnp.int32(0)
    large, small = of_two_sizes(total.astype(jnp.int32), block, larger)
    for size, number in ((larger, large), (block, small)) if larger else ((block, small),):

        def add(i: Array, sum_: Any, begin: Array = done, size: int = size) -> Any:
            def cut_out(x: Array) -> Array:
                return lax.dynamic_slice_in_dim(x, begin + i * size, size)

            return jax.tree.map(jnp.add, sum_, gradient(params, jax.tree.map(cut_out, batch)))

        whole = lax.fori_loop(jnp.int32(0), number, add, whole)
        done += number * size
    return _divided(whole, total)


def of_two_sizes(total: Int[Array, ""], block: int, larger: int) -> tuple[Array, Array]:
    """Numbers of larger pieces and of others that hold `total` examples in the fewest rows.

    Of several such choices, that with most larger pieces. `period` larger pieces have as many rows
    as some whole number of others, so only the last few numbers of larger ones are compared.
    """
    if not larger:
        return jnp.int32(0), -(-total // block)
    period = block // math.gcd(block, larger)
    large = jnp.maximum(-(-total // larger) - jnp.arange(period + 1, dtype=jnp.int32), 0)
    small = -(-jnp.maximum(total - large * larger, 0) // block)
    best = jnp.argmin(large * larger + small * block)
    return large[best], small[best]


def _pieces(total: Array, block: int) -> Array:
    """The number of pieces of so many examples."""
    return jnp.ceil(total / block).astype(jnp.int32)


def whose(
    needed: Int[Array, "lanes"], at: Int[Array, "places"]
) -> tuple[Int[Array, "places"], Int[Array, "places"]]:
    """The lane of each entry of the list, and the number of its piece; no lane past the end."""
    ends = jnp.cumsum(needed, dtype=jnp.int32)
    lanes = jnp.searchsorted(ends, at, side="right").astype(jnp.int32)
    return lanes, at - (ends - needed).at[lanes].get(mode="clip")


def summed(
    kept: Float[Array, "row ..."], needed: Int[Array, "lanes"], most: int
) -> Float[Array, "lanes ..."]:
    """The results of each lane's own pieces, added one by one; at most `most` pieces."""
    begins = jnp.cumsum(needed, dtype=jnp.int32) - needed
    like = (-1, *(1,) * (kept.ndim - 1))
    total = jnp.zeros((len(needed), *kept.shape[1:]), kept.dtype)
    for i in range(most):
        found = kept.at[begins + i].get(mode="clip")
        total += jnp.where((i < needed).reshape(like), found, jnp.zeros_like(found))
    return total


def by_lane(
    kept: Num[Array, "row ..."], needed: Int[Array, "lanes"], most: int
) -> Num[Array, "lanes most ..."]:
    """The results of each lane's own pieces, 0 where it has none."""
    begins = jnp.cumsum(needed, dtype=jnp.int32) - needed
    i = jnp.arange(most, dtype=jnp.int32)[None, :]
    found = kept.at[begins[:, None] + i].get(mode="clip")
    own = (i < needed[:, None]).reshape(len(needed), most, *(1,) * (kept.ndim - 1))
    return jnp.where(own, found, jnp.zeros_like(found))


def _divided(sums: Any, total: Array) -> Any:
    """Means from sums; an idle lane has no examples and does not change."""
    number = jnp.maximum(total, 1.0)

    def mean(x: Array) -> Array:
        return x / number.reshape(*number.shape, *(1,) * (x.ndim - number.ndim))

    return jax.tree.map(mean, sums)
