"""The compiled program of a shape: K training steps of one run, then its evaluation.

A lane is the state of one run on the device. `advance` trains a lane for K = eval_every steps and
evaluates it; an ensemble is `advance` under `vmap`. Rates, data, m (by a mask), support and target
are inputs, so that one program serves every run of a shape.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int, UInt8, UInt32

from capax.attention.transformer import TransformerSpec
from capax.training.dropout.dropout_masks import Masks
from capax.training.dropout.dropped_network import dropped_logits
from capax.training.dropout.token_kernel import kernel_masks, kernel_sums
from capax.training.fused.step import fused_step, pack
from capax.training.specs.trial_specs import NOTHING_DROPPED, DropoutSpec, OptimiserSpec
from capax.training.steps.gradient_pieces import in_pieces
from capax.training.steps.objective import accuracy, binary_losses, cross_entropy
from capax.training.steps.optimiser import transformation
from capax.training.steps.paths import CollapsedPath, Path

SUBSET = 512  # validation rows examined at every evaluation; the rest only if these are all right
_FEW = 64  # rows computed for all lanes together if gradients are in pieces: memory for few
_MANY = 128  # rows that a single lane computes at once


@dataclass(frozen=True)
class Program:
    """The shape of a compiled program. `rows` = padded m, or the batch size of online training."""

    path: Path
    rule: OptimiserSpec
    rows: int
    s: int
    chunk: int
    mode: Literal["full_batch", "online"]
    validation_rows: int
    block_rows: int
    fused: bool = False  # steps of the whole ensemble as one kernel (`capax.training.fused`)
    block: int = 0  # examples per piece of a gradient; 0: all at once
    larger: tuple[int, ...] = ()  # and per piece of a single lane with many examples
    alone: bool = False  # lanes are computed one after the other, as on a CPU
    labelled: bool = False  # the pool has the labels in a column after the inputs
    dropout: DropoutSpec = NOTHING_DROPPED


# A leaf of a lane: a JAX array on the device, a NumPy array while the lane is being made on the
# host, or a shape while a program is being compiled. The comments give type and shape.
Leaf = Any


Step = Callable[[Any, None], tuple[Any, None]]  # of `lax.scan`


class TargetBits(NamedTuple):
    """y = truth[sum_i x[support_i] A^i]; `relevant` is 0 on padding of the support."""

    support: Leaf  # int32 [s]
    relevant: Leaf  # float32 [s]
    truth: Leaf  # float32 [A^s]
    threshold: Leaf  # uint32 []: P[bit = 1] = threshold / 2^32


class Data(NamedTuple):
    """A padded training set (empty in online training) with its mask."""

    bits: Leaf  # uint8 [m, T]; eight to a byte (see `programs.seeds`) until it is in a slot
    y: Leaf  # float32 [m]
    mask: Leaf  # float32 [m]


class Lane(NamedTuple):
    """One run on the device: parameters, optimiser state, data, target, rates and key."""

    params: Any
    state: Any
    step: Leaf  # int32 []
    data: Data
    target: TargetBits
    lr: Leaf  # float32 []
    weight_decay: Leaf  # float32 []
    steps: Leaf  # float32 []
    key: Leaf  # uint32 [2]


class LaneMeasures(NamedTuple):
    """The results of an evaluation: `correct` of the first `SUBSET` validation rows."""

    loss: Float[Array, ""]
    train_accuracy: Float[Array, ""]
    correct: Int[Array, ""]
    mass: Float[Array, ""]


def start(path: Path, rule: OptimiserSpec, key: UInt32[Array, "2"]) -> tuple[Any, Any]:
    """Freshly drawn parameters and an empty optimiser state."""
    params = path.init(jax.random.wrap_key_data(key, impl="threefry2x32"))
    return params, transformation(rule, 0.0, 0.0, 1.0).init(params)


def advance(
    program: Program, lane: Lane, pool: UInt8[Array, "n T"], busy: Float[Array, ""] | None = None
) -> tuple[Lane, LaneMeasures]:
    """`chunk` training steps, then an evaluation with the new parameters.

    busy: 1 for a slot with a run, 0 for an idle one, which the fused step and gradients in pieces
    leave out.
    """
    make = _dropping if program.dropout.is_used else _fused if program.fused else _plain
    step, fixed = make(program, lane, busy)
    carry = (lane.params, lane.state, lane.step)
    (params, state, number), _ = lax.scan(step, carry, None, length=program.chunk)
    lane = lane._replace(params=params, state=state, step=number)
    batch = fixed if fixed is not None else _fresh(program, lane, number)
    return lane, _measure(program, lane, batch, pool)


def _plain(program: Program, lane: Lane, busy: Array | None) -> tuple[Step, Any]:
    """A step as XLA compiles it, and the batch if it is constant."""
    optimiser = _optimiser(program, lane)
    data = lane.data
    if program.block and busy is not None:
        data = data._replace(mask=data.mask * busy)
    fixed = _prepared(program, data) if program.mode == "full_batch" else None

    def loss(params: Any, batch: Any) -> Array:
        inputs, y, mask = batch
        return cross_entropy(program.path.logits(params, inputs), y, mask)

    if program.block:
        descent = in_pieces(program.path, program.block, program.larger)
    else:
        descent = jax.grad(loss)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        params, state, number = carry
        batch = fixed if fixed is not None else _fresh(program, lane, number)
        gradient = descent(params, batch)
        with jax.numpy_dtype_promotion("standard"):  # Optax mixes its counter with floats
            updates, state = optimiser.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        return (params, state, number + 1), None

    return step, fixed


def _dropping(program: Program, lane: Lane, busy: Array | None) -> tuple[Step, Any]:
    """A step with dropout, its tokens in a kernel if `program.fused`; and the batch, prepared for
    evaluation, if it is constant."""
    path, data = program.path, lane.data
    assert isinstance(path, CollapsedPath), "specs with dropout are of one layer"
    full = program.mode == "full_batch"
    used = data.mask if busy is None else data.mask * busy
    optimiser = _optimiser(program, lane)

    def loss(params: Any, batch: Any, masks: Masks) -> Array:
        bits, y, mask = batch
        sums = kernel_sums(mask) if program.fused else None
        values = dropped_logits(path.network(params), bits, masks, program.dropout, sums)
        return jnp.sum(mask * binary_losses(values, y)) / jnp.maximum(jnp.sum(mask), 1.0)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        params, state, number = carry
        batch = (data.bits, data.y, used) if full else _fresh_bits(program, lane, number)
        masks = Masks(lane.key, number)
        if program.fused:
            masks = kernel_masks(masks, len(batch[0]), path.spec.T, program.dropout)
        gradient = jax.grad(loss)(params, batch, masks)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
        return (params, state, number + 1), None

    return step, _prepared(program, data) if full else None


def _fused(program: Program, lane: Lane, busy: Array | None) -> tuple[Step, Any]:
    """A step as one kernel, full batch only, and that batch."""
    spec = program.path.spec
    assert isinstance(spec, TransformerSpec)
    weight = lane.data.mask / jnp.maximum(jnp.sum(lane.data.mask), 1.0)
    weight = weight if busy is None else weight * busy
    batch = pack(lane.data.bits), lane.data.y, weight
    rates = lane.lr, lane.weight_decay, lane.steps
    learn = fused_step(spec, program.rule, batch, rates)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        params, state, number = carry
        return (*learn(params, state), number + 1), None

    return step, _prepared(program, lane.data)


def examine(
    program: Program, params: Any, target: TargetBits, pool: UInt8[Array, "n T"], few: bool = False
) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """Number of right answers on the pool and mean attention mass, in blocks of rows; few: in small
    blocks, because all lanes are evaluated together."""
    n, columns = pool.shape
    T, A, support = program.path.spec.T, program.path.spec.alphabet, target.support
    if program.labelled:  # the column of labels is not a position
        support = jnp.minimum(support, T - 1)
    rows = min(program.block_rows, n, _FEW if few else n)
    num_blocks = -(-n // rows)
    padded = jnp.pad(pool, ((0, num_blocks * rows - n), (0, 0)))
    counted = (jnp.arange(num_blocks * rows) < n).reshape(num_blocks, rows)
    read = program.path.examiner(params)

    def block(inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        bits, counts = inputs
        values, mass = read(bits[:, :T], support, target.relevant)
        right = ((values > 0) == (labels(target, bits, A) > 0.5)) & counts
        return jnp.sum(right.astype(jnp.int32)), jnp.sum(jnp.where(counts, mass, 0.0))

    correct, mass = lax.map(block, (padded.reshape(num_blocks, rows, columns), counted))
    return jnp.sum(correct, dtype=jnp.int32), jnp.sum(mass) / n


def labels(target: TargetBits, bits: UInt8[Array, "m T"], A: int = 2) -> Float[Array, "m"]:
    """y of each row."""
    chosen = bits[:, target.support].astype(jnp.int32)
    powers = A ** jnp.arange(chosen.shape[1], dtype=jnp.int32)
    return target.truth[jnp.sum(chosen * powers[None, :], axis=1, dtype=jnp.int32)]


def _measure(program: Program, lane: Lane, batch: Any, pool: Array) -> LaneMeasures:
    inputs, y, mask = batch
    values = _logits(program, lane.params, inputs, mask)
    head, few = pool[:SUBSET], program.block > 0 and not program.alone
    correct, mass = examine(program, lane.params, lane.target, head, few)
    return LaneMeasures(cross_entropy(values, y, mask), accuracy(values, y, mask), correct, mass)


def _logits(program: Program, params: Any, inputs: Any, mask: Float[Array, "m"]) -> Array:
    """Logits of the training set, in the same pieces as gradients; a single lane computes only the
    pieces with examples, which come first."""
    if program.block == 0:
        return program.path.logits(params, inputs)
    if program.alone:
        size = next(n for n in range(min(_MANY, len(mask)), 0, -1) if len(mask) % n == 0)

        def answer(i: Array, values: Array) -> Array:
            cut = partial(lax.dynamic_slice_in_dim, start_index=i * size, slice_size=size)
            found = program.path.logits(params, jax.tree.map(cut, inputs))
            return lax.dynamic_update_slice_in_dim(values, found, i * size, 0)

        needed = jnp.ceil(jnp.sum(mask) / size).astype(jnp.int32)
        return lax.fori_loop(jnp.int32(0), needed, answer, jnp.zeros_like(mask))
    rows = next(n for n in range(min(_FEW, program.block), 0, -1) if program.block % n == 0)
    pieces = jax.tree.map(lambda x: x.reshape(-1, rows, *x.shape[1:]), inputs)
    return lax.map(lambda piece: program.path.logits(params, piece), pieces).reshape(-1)


def _prepared(program: Program, data: Data) -> Any:
    return program.path.prepare(data.bits), data.y, data.mask


def _fresh(program: Program, lane: Lane, number: Array) -> Any:
    """A batch of new inputs, prepared."""
    bits, y, ones = _fresh_bits(program, lane, number)
    return program.path.prepare(bits), y, ones


def _fresh_bits(program: Program, lane: Lane, number: Array) -> Any:
    """A batch of new inputs; it depends on the run's key and the step only."""
    key = jax.random.fold_in(jax.random.wrap_key_data(lane.key, impl="threefry2x32"), number)
    T, A = program.path.spec.T, program.path.spec.alphabet
    words = jax.random.bits(key, (program.rows, T), jnp.uint32)
    bits = (words < lane.target.threshold if A == 2 else words % A).astype(jnp.uint8)
    return bits, labels(lane.target, bits, A), jnp.ones(program.rows, jnp.float32)


def _optimiser(program: Program, lane: Lane) -> optax.GradientTransformation:
    return transformation(program.rule, lane.lr, lane.weight_decay, lane.steps)
