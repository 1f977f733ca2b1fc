"""Compiled programs, kept per (program, device, width), and compiled ahead in threads on request.

width 1: the program of one lane, unbatched. width W: the same program under `vmap` on W lanes.
"""

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from capax.training.program import SUBSET, Data, Lane, Program, Target, advance, examine, start

GROUP = 16  # lanes admitted, or examined on the whole pool, by one call


@dataclass(frozen=True)
class Executables:
    """admit: put new runs into slots; advance: train all slots on; examine: whole pool."""

    admit: Any
    advance: Any
    examine: Any


_lock = threading.Lock()
_kept: dict[Any, Future[Executables]] = {}


def executables(
    program: Program, device: jax.Device, width: int, options: dict[str, Any]
) -> Executables:
    """Compile once per process; later callers, also in other threads, wait for the same result."""
    key = (program, device, width, tuple(sorted(options.items())))
    with _lock:
        future = _kept.get(key)
        mine = future is None
        if future is None:
            future = _kept[key] = Future()
    if mine:
        try:
            future.set_result(_compile(program, device, width, options))
        except BaseException as error:
            with _lock:
                del _kept[key]
            future.set_exception(error)
    return future.result()


def _compile(
    program: Program, device: jax.Device, width: int, options: dict[str, Any]
) -> Executables:
    place = partial(_placed, device=device)
    seed, keys = seed_shape(program), jax.ShapeDtypeStruct((2,), jnp.uint32)
    lane = jax.eval_shape(partial(start, program), seed, keys)
    pool = place(jax.ShapeDtypeStruct((program.validation_rows, program.path.spec.T), jnp.uint8))

    def build(function: Any, *arguments: Any, donate: tuple[int, ...] = ()) -> Any:
        traced = jax.jit(function, donate_argnums=donate).lower(*arguments)
        return traced.compile(compiler_options=options)

    head = pool if program.validation_rows <= SUBSET else _first(pool, SUBSET)
    if width == 1:
        lane, seed, keys = place(lane), place(seed), place(keys)
        return Executables(
            build(partial(start, program), seed, keys),
            build(partial(advance, program), lane, head, donate=(0,)),
            build(partial(examine, program), lane.params, lane.target, pool),
        )
    lanes = place(_stacked(lane, width))
    index = place(jax.ShapeDtypeStruct((GROUP,), jnp.int32))
    seeds, keys = place(_stacked(seed, GROUP)), place(_stacked(keys, GROUP))
    return Executables(
        build(partial(_admit, program), lanes, seeds, keys, index, donate=(0,)),
        build(partial(_advance_all, program), lanes, head, donate=(0,)),
        build(partial(_examine_some, program), lanes.params, lanes.target, index, pool),
    )


def _admit(program: Program, lanes: Lane, seeds: Lane, keys: Any, index: Any) -> Lane:
    fresh = jax.vmap(partial(start, program))(seeds, keys)
    return jax.tree.map(lambda old, new: old.at[index].set(new), lanes, fresh)


def _advance_all(program: Program, lanes: Lane, pool: Any) -> Any:
    return jax.vmap(partial(advance, program), in_axes=(0, None))(lanes, pool)


def _examine_some(program: Program, params: Any, target: Target, index: Any, pool: Any) -> Any:
    chosen = jax.tree.map(lambda x: x[index], (params, target))
    return jax.vmap(partial(examine, program), in_axes=(0, 0, None))(*chosen, pool)


def seed_shape(program: Program) -> Lane:
    """Shapes of a lane before it has parameters."""
    spec, s = program.path.spec, program.s
    rows = program.rows if program.mode == "full_batch" else 0
    shape = jax.ShapeDtypeStruct
    real = shape((), jnp.float32)
    data = Data(
        shape((rows, spec.T), jnp.uint8), shape((rows,), jnp.float32), shape((rows,), jnp.float32)
    )
    target = Target(
        shape((s,), jnp.int32),
        shape((s,), jnp.float32),
        shape((2**s,), jnp.float32),
        shape((), jnp.uint32),
    )
    key, step = shape((2,), jnp.uint32), shape((), jnp.int32)
    return Lane(None, None, step, data, target, real, real, real, key)


def empty_lanes(program: Program, width: int) -> Lane:
    """`width` lanes of zeros on the host, as the program expects them."""
    keys = jax.ShapeDtypeStruct((2,), jnp.uint32)
    lane = jax.eval_shape(partial(start, program), seed_shape(program), keys)
    return jax.tree.map(lambda x: np.zeros((width, *x.shape), x.dtype), lane)


def _stacked(tree: Any, width: int) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((width, *x.shape), x.dtype), tree)


def _placed(tree: Any, device: jax.Device) -> Any:
    where = SingleDeviceSharding(device)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), tree)


def _first(pool: Any, rows: int) -> Any:
    return jax.ShapeDtypeStruct((rows, pool.shape[1]), pool.dtype, sharding=pool.sharding)
