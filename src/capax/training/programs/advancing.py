"""K training steps of one run, then its evaluation.

`advance` trains a lane for K = eval_every steps and evaluates it; an ensemble is `advance` under
`vmap`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, UInt8, UInt32

from capax.attention.transformer import TransformerSpec
from capax.training.dropout.dropout_masks import Masks
from capax.training.dropout.dropped_network import dropped_logits
from capax.training.dropout.token_kernel import kernel_masks, kernel_sums
from capax.training.fused.step import fused_step, pack
from capax.training.programs.evaluating import labels, measure
from capax.training.programs.program import Data, Lane, LaneMeasures, Program
from capax.training.specs.trial_specs import OptimiserSpec
from capax.training.steps.gradient_pieces import in_pieces
from capax.training.steps.objective import binary_losses, cross_entropy
from capax.training.steps.optimiser import transformation
from capax.training.steps.paths import CollapsedPath, Path

Step = Callable[[Any, None], tuple[Any, None]]  # of `lax.scan`


def start(path: Path, rule: OptimiserSpec, key: UInt32[Array, "2"]) -> tuple[Any, Any]:
    """Freshly drawn parameters and an empty optimiser state."""
    params = path.init(jax.random.wrap_key_data(key, impl="threefry2x32"))
    return params, transformation(rule, 0.0, 0.0, 1.0).init(params)


def advance(
    program: Program,
    lane: Lane,
    pool: UInt8[Array, "*pools n T"],
    busy: Float[Array, ""] | None = None,
) -> tuple[Lane, LaneMeasures]:
    """`chunk` training steps, then an evaluation with the new parameters on the pool, or on one of
    several.

    busy: 1 for a slot with a run, 0 for an idle one, which the fused step and gradients in pieces
    leave out.
    """
    make = _dropping if program.dropout.is_used else _fused if program.fused else _plain
    step, fixed = make(program, lane, busy)
    carry = (lane.params, lane.state, lane.step)
    (params, state, number), _ = lax.scan(step, carry, None, length=program.chunk)
    lane = lane._replace(params=params, state=state, step=number)
    batch = fixed if fixed is not None else _fresh(program, lane, number)
    return lane, measure(program, lane, batch, pool)


def advance_or_look(
    program: Program, lane: Lane, pool: UInt8[Array, "n T"], looks: Bool[Array, ""]
) -> tuple[Lane, LaneMeasures]:
    """`advance` of a single lane; or, if it looks, no steps and the whole pool: right answers and
    mass are then as by `examine`. One program instead of two takes a sixth less to compile."""
    step, batch = _plain(program, lane, None)
    carry = (lane.params, lane.state, lane.step)
    steps = jnp.where(looks, jnp.int32(0), jnp.int32(program.chunk))
    one = lambda _, at: step(at, None)[0]  # noqa: E731
    params, state, number = lax.fori_loop(jnp.int32(0), steps, one, carry)
    lane = lane._replace(params=params, state=state, step=number)
    inputs, y, mask = batch
    seen = (inputs, y, jnp.where(looks, jnp.zeros_like(mask), mask))
    return lane, measure(program, lane, seen, pool, looks)


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
        descent = in_pieces(program.path, program.block, program.larger, program.places)
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
