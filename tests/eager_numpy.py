"""Single operations that only move or copy numbers, or round once, by NumPy.

JAX compiles a program for every single operation on arrays of a new shape, 17 ms each (JAX 0.10.2,
one Neoverse N1, November 2026): also for `jnp.asarray` of a NumPy array and for one row of an
array. Tests make thousands. Programs that round more than once stay with JAX, which may round a sum
of products once; so does what is used often. `test_plain_programs.py` holds the others against
JAX's own, bit for bit, and says when a copy is cheap.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax._src import pjit
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


COMPARED = {
    lax.eq_p: np.equal, lax.ne_p: np.not_equal, lax.lt_p: np.less, lax.le_p: np.less_equal,
    lax.gt_p: np.greater, lax.ge_p: np.greater_equal,
}  # fmt: skip
ROUNDED = {
    lax.add_p: np.add, lax.sub_p: np.subtract, lax.mul_p: np.multiply,
}  # fmt: skip
FEW, OFTEN = 8, 16  # operations of a program; uses of it, from which on it is compiled
PROGRAM_BY_JAX = pjit._pjit_call_impl_python
USES: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def operations(jaxpr: Any) -> list[Any]:
    """Of a program and those within it."""
    inside = [eqn.params["jaxpr"].jaxpr for eqn in jaxpr.eqns if eqn.primitive is pjit.jit_p]
    own = [eqn.primitive for eqn in jaxpr.eqns if eqn.primitive is not pjit.jit_p]
    return own + [operation for program in inside for operation in operations(program)]


def is_exact(program: Any) -> bool:
    """Whether NumPy's bits are those of any compiler."""
    if len(program.jaxpr.eqns) > FEW:
        return False
    used = operations(program.jaxpr)
    known = all(operation in RULES or operation in COMPARED or operation in ROUNDED or
                operation in (lax.select_n_p, lax.neg_p) for operation in used)  # fmt: skip
    return (
        known
        and len(used) <= FEW
        and sum(operation in ROUNDED for operation in used) <= 1
        and not program.effects
        and not any(var.aval.weak_type for var in program.jaxpr.outvars)
    )


def one(eqn: Any, arguments: list[np.ndarray]) -> np.ndarray | None:
    operation, x = eqn.primitive, arguments
    if operation is lax.select_n_p:
        return np.where(x[0], x[2], x[1]) if x[0].dtype == bool and len(x) == 3 else None
    if operation is lax.neg_p:
        return -x[0]
    if operation in COMPARED:
        return COMPARED[operation](*x)
    if operation not in ROUNDED:
        return RULES[operation](*x, **eqn.params)
    found = np.asarray(ROUNDED[operation](*x))
    if found.dtype.kind != "f":
        return found
    smallest = np.finfo(found.dtype).tiny  # JAX may take what is smaller for 0
    usual = all((np.isfinite(a) & ((a == 0) | (np.abs(a) >= smallest))).all() for a in (*x, found))
    return found if usual else None


def evaluated(jaxpr: Any, consts: Any, arguments: Any) -> list[np.ndarray] | None:
    """The results of a program, operation by operation; None if JAX must tell."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

    def read(var: Any) -> np.ndarray | None:
        value = var.val if hasattr(var, "val") else values[var]
        if isinstance(value, bool | int | float):
            value = np.asarray(value, var.aval.dtype)
        return in_numpy(value, lax.convert_element_type_p)

    for eqn in jaxpr.eqns:
        known = [read(var) for var in eqn.invars]
        if any(x is None for x in known):
            return None
        if eqn.primitive is pjit.jit_p:
            inner = eqn.params["jaxpr"]
            found = evaluated(inner.jaxpr, inner.consts, known)
        else:
            single = one(eqn, known)
            found = None if single is None else [np.asarray(single, eqn.outvars[0].aval.dtype)]
        if found is None:
            return None
        values |= dict(zip(eqn.outvars, found, strict=True))
    results = [read(var) for var in jaxpr.outvars]
    return None if any(x is None for x in results) else results


def program_by_numpy(*arguments: Any, **options: Any) -> Any:
    program = options["jaxpr"]
    own = options["compiler_options_kvs"] or any(options["donated_invars"])
    if not own and is_exact(program) and USES.setdefault(program, 0) < OFTEN:
        USES[program] += 1
        with np.errstate(all="ignore"):
            results = evaluated(program.jaxpr, program.consts, arguments)
        if results is not None:
            return [jax.device_put(TypedNdArray(np.array(x))) for x in results], None, None, []
    return PROGRAM_BY_JAX(*arguments, **options)


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
    pjit._pjit_call_impl_python = program_by_numpy


def move_by_jax() -> None:
    for operation, compiled in BY_JAX.items():
        operation.impl = compiled
    pjit._pjit_call_impl_python = PROGRAM_BY_JAX
