"""Shapes of the lanes of a program, and lanes of zeros."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from capax.training.programs.advancing import start
from capax.training.programs.program import Data, Lane, Program, TargetBits

_SENT = 1 << 28  # bytes of zeros that are sent to a device; for more, compiling a program is faster
KEY = jax.ShapeDtypeStruct((2,), jnp.uint32)


def packed_width(T: int, alphabet: int) -> int:
    """Bytes of T bits, eight to a byte; a symbol of a larger alphabet takes one."""
    return -(-T // 8) if alphabet == 2 else T


def lane_shape(program: Program) -> Lane:
    """Shapes of a lane."""
    spec, s = program.path.spec, program.s
    rows = program.rows if program.mode == "full_batch" else 0
    shape = jax.ShapeDtypeStruct
    real = shape((), jnp.float32)
    each = shape((rows,), jnp.float32)
    target = TargetBits(
        shape((s,), jnp.int32),
        shape((s,), jnp.float32),
        shape((spec.alphabet**s,), jnp.float32),
        shape((), jnp.uint32),
        shape((), jnp.int32),
    )
    params, state = jax.eval_shape(partial(start, program.path, program.rule), KEY)
    data = Data(shape((rows, spec.T), jnp.uint8), each, each)
    step = shape((), jnp.int32)
    return Lane(params, state, step, data, target, real, real, real, KEY)


def empty_lanes(program: Program, width: int, device: jax.Device) -> Lane:
    """`width` lanes of zeros on the device, as the program expects them."""
    lanes = stacked(lane_shape(program), width)
    if sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(lanes)) < _SENT:
        return jax.device_put(jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), lanes), device)
    made = jax.jit(
        lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), lanes),
        out_shardings=SingleDeviceSharding(device),
    )
    return made()


def stacked(tree: Any, width: int) -> Any:
    """The shapes of `width` of these."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((width, *x.shape), x.dtype), tree)
