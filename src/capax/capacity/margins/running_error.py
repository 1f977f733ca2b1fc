"""A function evaluated in float64 together with a bound of its rounding error.

Running error analysis: every intermediate value v comes with e, |v - exact| <= e. The
function is traced to its list of primitive operations and each is applied to pairs (v, e), e.g.

    x * y:       |x| e_y + e_x |y| + e_x e_y + u |v|
    dot product: the same, summed, + gamma_n sum |x||y|,  gamma_n = n u / (1 - n u)
    exp:         v (e^{e_x} - 1) + 16 u v

Sums are bounded for every order of summation. Elementary functions are taken to be right to 16
units in the last place. If the error leaves a comparison undecided, everything that depends on it
has an infinite error bound (e = inf). An operation that is not in the list is refused by name.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import Array, Float

from capax.errors import InputError
from capax.rounding import LIBRARY, SLACK, TINY, UNIT, gamma

Pair = tuple[Any, Any]  # value, and its error bound or None if it is exact


class Op(NamedTuple):
    """One operation: operands v with errors e, the result, the operation's parameters."""

    v: list[Any]
    e: list[Any]
    out: Any
    params: dict[str, Any]


class UnknownOperation(InputError):
    """The function contains an operation without a rule here."""


MOVES = {
    "broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "slice", "concatenate",
    "gather", "dynamic_slice", "rev", "stop_gradient", "copy", "copy_p",
}  # fmt: skip
COMPARISONS = {"lt", "gt", "le", "ge", "eq", "ne"}
SLOPES = {"tanh": 1.0, "logistic": 0.25, "erf": 2 / math.sqrt(math.pi)}
SLOPES["erfc"] = SLOPES["erf"]
CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"}


def evaluate_with_error(
    function: Callable[[Any], Any], x: Array
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """(function(x), a bound of the error of each entry); x is exact. Works under jit and vmap.

    Raises `UnknownOperation` for a function with an operation that has no rule here.
    """
    closed = jax.make_jaxpr(function)(x)
    (value, error), *_ = _run(closed.jaxpr, closed.consts, [(x, None)])
    if error is None:
        return value, jnp.zeros_like(value)
    return value, jnp.where(jnp.isnan(error), jnp.inf, error)


def _run(jaxpr: Any, consts: Any, arguments: list[Pair]) -> list[Pair]:
    known: dict[Any, Pair] = {}
    known.update(zip(jaxpr.constvars, [(c, None) for c in consts], strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(var: Any) -> Pair:
        return (var.val, None) if isinstance(var, Literal) else known[var]

    for eqn in jaxpr.eqns:
        results = _step(eqn, [read(var) for var in eqn.invars])
        known.update(zip(eqn.outvars, results, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _step(eqn: Any, pairs: list[Pair]) -> list[Pair]:
    name, params = eqn.primitive.name, eqn.params
    if name in CALLS:
        inner = params.get("jaxpr") or params.get("call_jaxpr")
        return _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), pairs)
    values = [v for v, _ in pairs]
    out = eqn.primitive.bind(*values, **params)
    if eqn.primitive.multiple_results:
        raise UnknownOperation(f"rounding: no error analysis of the operation {name}")
    if all(e is None for _, e in pairs) and not jnp.issubdtype(out.dtype, jnp.floating):
        return [(out, None)]
    errors = [_or_zero(v, e) for v, e in pairs]
    return [(out, _error(eqn, values, errors, out))]


def _or_zero(value: Any, error: Any) -> Any:
    return jnp.zeros(jnp.shape(value), jnp.float64) if error is None else error


def _error(eqn: Any, v: list[Any], e: list[Any], out: Any) -> Any:
    """The error bound of one operation from its operands' values and bounds."""
    name, params = eqn.primitive.name, eqn.params
    if name in MOVES:
        return _moved(eqn, v, e)
    if name in COMPARISONS:
        if eqn.invars[0] is eqn.invars[1]:  # x != x: is it NaN?
            return jnp.zeros(out.shape, jnp.float64)
        return jnp.where(jnp.abs(_wide(v[0]) - _wide(v[1])) <= e[0] + e[1], _open(e), 0.0)
    if name == "select_n":
        chosen = eqn.primitive.bind(v[0], *e[1:], **params)
        return chosen + e[0]
    if name in RULES:
        return SLACK * RULES[name](Op(v, e, out, params)) + TINY
    raise UnknownOperation(f"rounding: no error analysis of the operation {name}")


def _open(e: list[Any]) -> Any:
    """inf where an operand is uncertain, 0 where both are exact."""
    return jnp.where(e[0] + e[1] > 0, jnp.inf, 0.0)


def _wide(value: Any) -> Any:
    return jnp.asarray(value).astype(jnp.float64)


def _moved(eqn: Any, v: list[Any], e: list[Any]) -> Any:
    """Operations that only move entries move their errors in the same way; indices are exact."""
    if eqn.primitive.name == "concatenate":
        return eqn.primitive.bind(*e, **eqn.params)
    return eqn.primitive.bind(e[0], *v[1:], **eqn.params)


def _product(op: Op) -> Any:
    (x, y), (a, b) = op.v, op.e
    return jnp.abs(x) * b + a * jnp.abs(y) + a * b + UNIT * jnp.abs(op.out)


def _quotient(op: Op) -> Any:
    room = jnp.abs(op.v[1]) - op.e[1]
    safe = jnp.where(room > 0, room, 1.0)
    moved = (op.e[0] + jnp.abs(op.out) * op.e[1]) / safe
    return jnp.where(room > 0, moved, jnp.inf) + UNIT * jnp.abs(op.out)


def _sum(op: Op) -> Any:
    axes = op.params["axes"]
    n = math.prod(op.v[0].shape[axis] for axis in axes)
    total = (op.e[0] + gamma(n) * jnp.abs(op.v[0])).sum(axis=axes)
    return total + UNIT * jnp.abs(op.out)


def _dot(op: Op) -> Any:
    dims = op.params["dimension_numbers"]
    n = math.prod(op.v[0].shape[axis] for axis in dims[0][0])

    def dot(a: Any, b: Any) -> Any:
        return jax.lax.dot_general(a, b, dims, precision=jax.lax.Precision.HIGHEST)

    left, right = jnp.abs(_wide(op.v[0])), jnp.abs(_wide(op.v[1]))
    return dot(left, op.e[1]) + dot(op.e[0], right + op.e[1]) + gamma(n + 2) * dot(left, right)


def _relative(op: Op, power: float) -> Any:
    """|out| |(1 - e/x)^power - 1| for x^power on positive x; no limit where x may reach 0."""
    x, e = op.v[0], op.e[0]
    share = e / jnp.where(x > 0, x, 1.0)
    open_end = (share >= 1) | (x <= 0)
    change = jnp.abs(jnp.expm1(power * jnp.log1p(-jnp.where(open_end, 0.0, share))))
    error = jnp.abs(op.out) * (change + LIBRARY)
    return jnp.where(open_end & (e > 0), jnp.inf, error)


def _log(op: Op, shift: float) -> Any:
    x, e = op.v[0] + shift, op.e[0]
    share = e / jnp.where(x > 0, x, 1.0)
    open_end = (share >= 1) & (e > 0)
    moved = -jnp.log1p(-jnp.where(open_end, 0.0, share))
    return jnp.where(open_end, jnp.inf, moved) + LIBRARY * jnp.abs(op.out)


def _power(op: Op) -> Any:
    y = op.params["y"]
    if y < 1:
        raise UnknownOperation(f"rounding: no error analysis of the power {y}")
    slope = y * (jnp.abs(op.v[0]) + op.e[0]) ** (y - 1)
    return slope * op.e[0] + y * UNIT * jnp.abs(op.out)


def _converted(op: Op) -> Any:
    was, now = op.v[0].dtype, op.out.dtype
    if jnp.issubdtype(was, jnp.floating) and now != was:
        raise UnknownOperation(f"rounding: no error analysis of a conversion to {now}")
    return op.e[0]


def _rounded_sum(op: Op) -> Any:
    return op.e[0] + op.e[1] + UNIT * jnp.abs(_wide(op.out))


def _larger(op: Op) -> Any:
    return jnp.maximum(op.e[0], op.e[1])


def _largest(op: Op) -> Any:
    return op.e[0].max(axis=op.params["axes"])


def _same(op: Op) -> Any:
    return op.e[0]


RULES: dict[str, Callable[[Op], Any]] = {
    "add": _rounded_sum,
    "sub": _rounded_sum,
    "mul": _product,
    "div": _quotient,
    "neg": _same,
    "abs": _same,
    "max": _larger,
    "min": _larger,
    "exp": lambda op: op.out * (jnp.expm1(op.e[0]) + LIBRARY),
    "log": lambda op: _log(op, 0.0),
    "log1p": lambda op: _log(op, 1.0),
    "sqrt": lambda op: _relative(op, 0.5),
    "rsqrt": lambda op: _relative(op, -0.5),
    "square": lambda op: (2 * jnp.abs(op.v[0]) + op.e[0]) * op.e[0] + UNIT * op.out,
    "integer_pow": _power,
    "reduce_sum": _sum,
    "reduce_max": _largest,
    "reduce_min": _largest,
    "dot_general": _dot,
    "convert_element_type": _converted,
    "is_finite": lambda op: jnp.zeros(op.out.shape, jnp.float64),
    **{
        name: lambda op, slope=slope: slope * op.e[0] + LIBRARY * (1 + jnp.abs(op.out))
        for name, slope in SLOPES.items()
    },
}
