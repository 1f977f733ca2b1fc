"""Gradients as sums over pieces of the examples: the cost of a lane depends on its own m.

One program then serves a search over a wide range of m, and activations of one piece only are kept.
If many lanes run together (`vmap`), a loop up to the largest m would leave all other lanes idle.
Instead, a few places compute one piece each, of any lane, and all pieces are divided among them.

All pieces form a list, lane by lane, and every round takes the next ones, one for each place. A
lane may have several in one round, so the result of a piece is kept until the end, and each lane
then adds its own pieces in order: the same sum, to the last bit, for all other lanes.

A single lane (a core of a CPU) takes larger pieces while many examples are left: the fixed cost of
a piece (tables of all tokens, the sum of gradients, small products) then occurs less often.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

from capax.training.steps.paths import Path
from capax.training.steps.together import spread

_PLACES, _PLACES_LONG, _LONG = 96, 48, 100  # up to T = 100, and beyond it
_LARGER = (
    4,
)  # blocks of a larger piece: each size is a gradient more to compile, and ten gain nothing
_FULL = 0.6  # of a larger piece: if it is fuller than this, it costs less than its blocks


def num_places(T: int) -> int:
    """Pieces that are worked on together: a GPU is busy, and few places stay empty.

    On one H200, lanes with m = 22 to 1024, eight of each (milliseconds per step of all): 96 places
    of 128 examples instead of 48 of 256 take 6.5 instead of 8.5 (mixer, T = 50) and 5.6 instead of
    6.7 (lstm); 96 of 64 instead of 48 of 128 take 9.4 instead of 10.7 and 10.6 instead of 12.0 at
    T = 100. Where inputs are longer, rounds have fewer trials, and more places would stay empty.
    """
    return _PLACES if T <= _LONG else _PLACES_LONG


def larger_pieces(block: int, rows: int, most: int) -> tuple[int, ...]:
    """Sizes above `block` for a single lane, largest first, each of at most `most` examples.

    Each fits into the rows twice: XLA always runs a loop that can only run once.
    """
    return tuple(n * block for n in _LARGER if n * block <= min(most, rows // 2))


def in_pieces(
    path: Path, block: int, larger: tuple[int, ...] = (), places: int | None = None
) -> Callable[[Any, Any], Any]:
    """params, (inputs, y, mask) -> the gradient of the mean loss over rows with mask 1.

    The number of rows is a multiple of `block`, and those with mask 1 come first. larger: multiples
    of `block`, largest first, that a lane alone works on. places: pieces that are worked on
    together, `num_places` if None.
    """
    places = places or num_places(path.spec.T)

    def part(params: Any, batch: Any) -> Array:
        inputs, y, mask = batch
        z = path.logits(params, inputs)
        return jnp.sum(mask * (jnp.logaddexp(z, jnp.zeros_like(z)) - y * z))

    @custom_vmap
    def descent(params: Any, batch: Any) -> Any:
        return _alone(jax.grad(part), (*larger, block), params, batch)

    @descent.def_vmap
    def together(size: int, batched: Any, params: Any, batch: Any) -> Any:
        params, batch = spread(size, batched, (params, batch))
        total = jnp.sum(batch[2], axis=1)
        pieces = jax.tree.map(lambda x: x.reshape(size, -1, block, *x.shape[2:]), batch)
        needed, most = _pieces(total, block), pieces[2].shape[1]
        at_once = min(places, size * most)
        rounds = -(-jnp.sum(needed, dtype=jnp.int32) // at_once)

        def work(number: Array, kept: Any) -> Any:
            lanes, i = whose(needed, number * at_once + jnp.arange(at_once, dtype=jnp.int32))
            chosen = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), params)
            piece = jax.tree.map(lambda x: x.at[lanes, i].get(mode="clip"), pieces)
            new = jax.vmap(jax.grad(part))(chosen, piece)
            return jax.tree.map(
                lambda all_, x: lax.dynamic_update_slice_in_dim(all_, x, number * at_once, 0),
                kept,
                new,
            )

        longest = -(-size * most // at_once) * at_once
        room = jax.tree.map(lambda x: jnp.zeros((longest, *x.shape[1:]), x.dtype), params)
        kept = lax.fori_loop(jnp.int32(0), rounds, work, room)
        whole = jax.tree.map(lambda x: summed(x, needed, most), kept)
        return _divided(whole, total), jax.tree.map(lambda _: True, whole)

    return descent


def _alone(
    gradient: Callable[[Any, Any], Any], sizes: tuple[int, ...], params: Any, batch: Any
) -> Any:
    """One lane: as many of the largest pieces as are nearly full, then the next smaller ones."""
    total, rows = jnp.sum(batch[2]), len(batch[2])
    whole, done = jax.tree.map(jnp.zeros_like, params), jnp.int32(0)
    for size in sizes:
        left = total - done.astype(total.dtype)
        needed = _pieces(left if size == sizes[-1] else left - _FULL * size, size)
        number = jnp.clip(needed, 0, (rows - done) // size)

        def add(i: Array, sum_: Any, begin: Array = done, size: int = size) -> Any:
            def cut_out(x: Array) -> Array:
                return lax.dynamic_slice_in_dim(x, begin + i * size, size)

            return jax.tree.map(jnp.add, sum_, gradient(params, jax.tree.map(cut_out, batch)))

        whole = lax.fori_loop(jnp.int32(0), number, add, whole)
        done += number * size
    return _divided(whole, total)


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


def _divided(sums: Any, total: Array) -> Any:
    """Means from sums; an idle lane has no examples and does not change."""
    number = jnp.maximum(total, 1.0)

    def mean(x: Array) -> Array:
        return x / number.reshape(*number.shape, *(1,) * (x.ndim - number.ndim))

    return jax.tree.map(mean, sums)
