"""The evaluation of a lane: loss and accuracy on its training set, right answers on the pool."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int, UInt8

from capax.training.programs.program import SUBSET, Lane, LaneMeasures, Program, TargetBits
from capax.training.steps.gradient_pieces import answers_in_pieces, by_lane, in_rounds
from capax.training.steps.objective import accuracy, cross_entropy
from capax.training.steps.together import spread

_MANY = 128  # rows that a single lane computes at once


def examine(
    program: Program, params: Any, target: TargetBits, pool: UInt8[Array, "n T"]
) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """Number of right answers on the pool and mean attention mass, in blocks of rows."""
    read = program.path.examiner(params)
    count = partial(_count, program, read, target)
    correct, mass = lax.map(count, _in_blocks(pool, program.block_rows))
    return jnp.sum(correct, dtype=jnp.int32), jnp.sum(mass) / len(pool)


def _examine_either(
    program: Program, params: Any, target: TargetBits, pool: Array, whole: Bool[Array, ""]
) -> tuple[Array, Array]:
    """`examine` of the whole pool, or of its first `SUBSET` rows."""
    size = next(n for n in range(min(program.block_rows, SUBSET), 0, -1) if SUBSET % n == 0)
    blocks, read = _in_blocks(pool, size), program.path.examiner(params)
    first = min(SUBSET, len(pool))
    needed = jnp.where(whole, jnp.int32(len(blocks[1])), jnp.int32(-(-first // size)))

    def add(i: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        block = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, i, keepdims=False), blocks)
        correct, mass = _count(program, read, target, block)
        return sums[0] + correct, sums[1] + mass

    correct, mass = lax.fori_loop(jnp.int32(0), needed, add, (jnp.int32(0), jnp.float32(0)))
    return correct, mass / jnp.where(whole, jnp.float32(len(pool)), jnp.float32(first))


def _in_blocks(pool: Array, most: int) -> tuple[Array, Array]:
    """The rows of the pool in blocks of at most `most`, and which of them count."""
    n, columns = pool.shape
    rows = min(most, n)
    number = -(-n // rows)
    padded = jnp.pad(pool, ((0, number * rows - n), (0, 0)))
    counted = (jnp.arange(number * rows) < n).reshape(number, rows)
    return padded.reshape(number, rows, columns), counted


def _count(
    program: Program, read: Any, target: TargetBits, block: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Right answers in a block of rows, and the sum of their attention mass."""
    bits, counts = block
    T, A, support = program.path.spec.T, program.path.spec.alphabet, target.support
    if program.labelled:  # the column of labels is not a position
        support = jnp.minimum(support, T - 1)
    values, mass = read(bits[:, :T], support, target.relevant)
    right = ((values > 0) == (labels(target, bits, A) > 0.5)) & counts
    return jnp.sum(right, dtype=jnp.int32), jnp.sum(jnp.where(counts, mass, 0.0))


def _examine_busy(program: Program) -> Callable[..., tuple[Array, Array]]:
    """params, target, busy, pools -> as `examine` of a lane's own pool; where lanes run together, 0
    for idle ones."""

    @custom_vmap
    def look(params: Any, target: Any, busy: Any, pools: Any) -> Any:
        del busy
        return examine(program, params, target, own_pool(pools, target))

    @look.def_vmap
    def together(size: int, batched: Any, *arguments: Any) -> Any:
        pools = arguments[3] if arguments[3].ndim == 3 else arguments[3][None]
        assert not batched[3], "all lanes have the same pools"
        params, target, busy = spread(size, batched[:3], arguments[:3])
        rows = min(program.block, program.block_rows)
        blocks = jax.vmap(lambda pool: _in_blocks(pool, rows))(pools)
        number = blocks[1].shape[1]

        def count(lanes: Array, i: Array) -> Any:
            own = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), (params, target))
            some = jax.tree.map(lambda x: x.at[own[1].pool, i].get(mode="clip"), blocks)
            return jax.vmap(
                lambda own, block: _count(program, program.path.examiner(own[0]), own[1], block)
            )(own, some)

        needed = jnp.where(busy > 0, jnp.int32(number), jnp.int32(0))
        kept = in_rounds(count, needed, number, program.places)
        correct, mass = jax.tree.map(lambda x: by_lane(x, needed, number), kept)
        found = jnp.sum(correct, axis=1, dtype=jnp.int32), jnp.sum(mass, axis=1) / pools.shape[1]
        return found, (True, True)

    return look


def own_pool(pools: UInt8[Array, "*pools n T"], target: TargetBits) -> UInt8[Array, "n T"]:
    """The validation set of a lane, of one or several."""
    if pools.ndim == 2:
        return pools
    return lax.dynamic_index_in_dim(pools, target.pool, keepdims=False)


def labels(target: TargetBits, bits: UInt8[Array, "m T"], A: int = 2) -> Float[Array, "m"]:
    """y of each row."""
    chosen = bits[:, target.support].astype(jnp.int32)
    powers = A ** jnp.arange(chosen.shape[1], dtype=jnp.int32)
    return target.truth[jnp.sum(chosen * powers[None, :], axis=1, dtype=jnp.int32)]


def measure(
    program: Program, lane: Lane, batch: Any, pool: Array, whole: Bool[Array, ""] | None = None
) -> LaneMeasures:
    """The evaluation of a lane on its prepared training set and on the first `SUBSET` rows of its
    pool. whole: for a lane alone; if it is true, all rows of the pool are examined."""
    inputs, y, mask = batch
    values, head = _logits(program, lane.params, inputs, mask), pool[..., :SUBSET, :]
    if whole is not None:
        correct, mass = _examine_either(program, lane.params, lane.target, pool, whole)
    elif program.block and not program.alone:
        look = _examine_busy(program)
        correct, mass = look(lane.params, lane.target, jnp.sum(mask), head)
    else:
        correct, mass = examine(program, lane.params, lane.target, own_pool(head, lane.target))
    return LaneMeasures(cross_entropy(values, y, mask), accuracy(values, y, mask), correct, mass)


def _logits(program: Program, params: Any, inputs: Any, mask: Float[Array, "m"]) -> Array:
    """Logits of the training set; with gradients in pieces, of the pieces with examples, which come
    first."""
    if program.block == 0:
        return program.path.logits(params, inputs)
    if not program.alone:
        return answers_in_pieces(program.path, program.block, program.places)(params, inputs, mask)
    size = next(n for n in range(min(_MANY, len(mask)), 0, -1) if len(mask) % n == 0)

    def answer(i: Array, values: Array) -> Array:
        cut = partial(lax.dynamic_slice_in_dim, start_index=i * size, slice_size=size)
        found = program.path.logits(params, jax.tree.map(cut, inputs))
        return lax.dynamic_update_slice_in_dim(values, found, i * size, 0)

    needed = jnp.ceil(jnp.sum(mask) / size).astype(jnp.int32)
    return lax.fori_loop(jnp.int32(0), needed, answer, jnp.zeros_like(mask))
