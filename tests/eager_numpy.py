"""Single operations that only move or copy numbers, by NumPy.

JAX compiles a program for every single operation on arrays of a new shape, 17 ms each (JAX 0.10.2,
one Neoverse N1, November 2026): also for `jnp.asarray` of a NumPy array and for one row of an
array. Tests make thousands. Operations within a program, and those that round, stay with JAX.
`test_plain_programs.py` holds them against JAX's own, and says when a copy is cheap.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src.lax import lax, slicing
from jax._src.literals import TypedFloat, TypedInt, TypedNdArray

SMALL = 1 << 16  # numbers; larger arrays are rare, and programs may copy them faster


def stage(x: np.ndarray) -> np.ndarray:
    return x


def convert(x: np.ndarray, *, new_dtype: Any, weak_type: bool, sharding: Any) -> np.ndarray | None:
    """Not from a float to an integer: what is out of range, JAX clips."""
    whole = x.dtype.kind in "fc" and np.dtype(new_dtype).kind not in "fc"
    known = np.dtype(new_dtype).kind in "fiub" and x.dtype.kind in "fiub"
    narrow = x.dtype.kind == "f" and np.dtype(new_dtype).itemsize < x.dtype.itemsize
    if weak_type or sharding is not None or whole or not known:
        return None
    with np.errstate(over="ignore") if narrow else np.errstate():
        return x.astype(new_dtype)


def transpose(x: np.ndarray, *, permutation: Any) -> np.ndarray:
    return x.transpose(permutation)


def squeeze(x: np.ndarray, *, dimensions: Any) -> np.ndarray:
    return x.squeeze(tuple(dimensions))


def reshape(x: np.ndarray, *, new_sizes: Any, dimensions: Any, sharding: Any) -> np.ndarray | None:
    return x.reshape(new_sizes) if dimensions is None and sharding is None else None


def cut(x: np.ndarray, *, start_indices: Any, limit_indices: Any, strides: Any) -> np.ndarray:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def cut_at(x: np.ndarray, *starts: np.ndarray, slice_sizes: Any) -> np.ndarray:
    """What would end outside begins earlier."""
    first = [
        min(max(int(at), 0), n - size)
        for at, n, size in zip(starts, x.shape, slice_sizes, strict=True)
    ]
    return x[tuple(slice(at, at + size) for at, size in zip(first, slice_sizes, strict=True))]


def broadcast(
    x: np.ndarray, *more: Any, shape: Any, broadcast_dimensions: Any, sharding: Any
) -> np.ndarray | None:
    if more or sharding is not None:
        return None
    sizes = [1] * len(shape)
    for axis, n in zip(broadcast_dimensions, x.shape, strict=True):
        sizes[axis] = n
    return np.broadcast_to(x.reshape(sizes), shape)


def join(*parts: np.ndarray, dimension: int) -> np.ndarray:
    return np.concatenate(parts, axis=dimension)


def count(*, dtype: Any, shape: Any, dimension: int, sharding: Any) -> np.ndarray | None:
    sizes = [n if axis == dimension else 1 for axis, n in enumerate(shape)]
    numbers = np.arange(shape[dimension], dtype=dtype).reshape(sizes)
    return np.broadcast_to(numbers, shape) if sharding is None and numbers.size <= SMALL else None


RULES: dict[Any, Callable[..., np.ndarray | None]] = {
    lax.stage_p: stage,
    lax.convert_element_type_p: convert,
    lax.transpose_p: transpose,
    lax.squeeze_p: squeeze,
    lax.reshape_p: reshape,
    slicing.slice_p: cut,
    slicing.dynamic_slice_p: cut_at,
    lax.broadcast_in_dim_p: broadcast,
    lax.concatenate_p: join,
    lax.iota_p: count,
}
BY_JAX = {operation: operation.impl for operation in RULES}


def in_numpy(x: Any, operation: Any) -> np.ndarray | None:
    """A small array of ordinary numbers; None for all others.

    Where the type of Python's own numbers gives way to others, only a conversion ends that.
    """
    if isinstance(x, TypedInt | TypedFloat):
        x = TypedNdArray(np.asarray(x, x.dtype), aval=x.aval)
    known = isinstance(x, np.ndarray | np.generic | jax.Array) and isinstance(x.dtype, np.dtype)
    if not known or x.dtype.kind not in "fiub" or x.size > SMALL:
        return None
    weak = getattr(x, "weak_type", False) and operation is not lax.convert_element_type_p
    return None if weak else np.asarray(x)


def by_numpy(operation: Any) -> Callable[..., Any]:
    rule, compiled = RULES[operation], BY_JAX[operation]

    def evaluate(*arguments: Any, **options: Any) -> Any:
        known = [in_numpy(x, operation) for x in arguments]
        if all(x is not None for x in known):
            moved = rule(*known, **options)
            if moved is not None:
                return jax.device_put(TypedNdArray(np.array(moved, order="C")))  # its own copy
        return compiled(*arguments, **options)

    return evaluate


def move_by_numpy() -> None:
    """On one CPU alone: elsewhere arrays have a place."""
    for operation in RULES:
        operation.impl = by_numpy(operation)


def move_by_jax() -> None:
    for operation, compiled in BY_JAX.items():
        operation.impl = compiled
