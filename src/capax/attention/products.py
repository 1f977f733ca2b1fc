"""Products of weights with every token of every example, whose gradients fill a GPU.

The gradient of a weight matrix of 20 x 20 is a sum over the m T tokens. As one product that is one
tile of the result, added up by one multiprocessor while the others are idle; it took half of a
step. Summed in groups of examples, then over the groups, all multiprocessors have work. On a CPU
one product would copy its left side column by column, and compute an activation there once more;
products of groups read it as it lies.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

try:
    from jax.experimental.xla_metadata import set_xla_metadata
except ImportError:  # a JAX without it computes the same numbers, some more than once

    def set_xla_metadata(**_: str) -> nullcontext[None]:
        return nullcontext()


_GROUPS = 16  # of examples: with some dozen models at once, enough blocks of threads

Parts = Callable[[Array, Array], Array]


def matmul(a: Array, b: Array) -> Array:
    """A product in float32, also on a GPU."""
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def transposed(W: Float[Array, "c n"]) -> Float[Array, "n c"]:
    """W^T, written before a loop that multiplies by it, not in each of its steps."""
    return lax.optimization_barrier(W.T)


def computed_once(part: Callable[..., Any]) -> Callable[..., Any]:
    """`part` as a piece of its own in a program: it is computed, and then its results are read.

    XLA on a CPU computes what is cheap once more for every use of it. Inside `part` only operations
    of `lax`: functions that JAX compiles by themselves would become pieces as well.
    """
    compiled = jax.jit(part)

    @wraps(part)
    def called(*arrays: Any) -> Any:
        with set_xla_metadata(inlineable="false"):
            return compiled(*arrays)

    return called


def over_examples(x: Float[Array, "i m"], y: Float[Array, "j m"]) -> Float[Array, "i j"]:
    """x y^T, where examples are columns."""
    return lax.dot_general(x, y, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)


@jax.custom_vjp
def over_width(x: Float[Array, "m T c"], W: Float[Array, "c n"]) -> Float[Array, "m T n"]:
    """x_t W for every token."""
    return matmul(x, W)


def _over_width_back(kept: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    x, W = kept
    return matmul(dy, W.T), in_groups(token_products, x, dy)


over_width.defvjp(lambda x, W: (matmul(x, W), (x, W)), _over_width_back)


@jax.custom_vjp
def over_positions(V: Float[Array, "e T"], x: Float[Array, "m T d"]) -> Float[Array, "m e d"]:
    """sum_t V_et x_t, the same for every channel."""
    return matmul(V, x)


def _over_positions_back(kept: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    V, x = kept
    return in_groups(channel_products, dy, x), matmul(V.T, dy)


over_positions.defvjp(lambda V, x: (matmul(V, x), (V, x)), _over_positions_back)


def token_products(x: Float[Array, "g m T c"], dy: Float[Array, "g m T n"]) -> Array:
    """sum over examples and positions of x_c dy_n, for every group: all tokens in a row."""
    tokens = (a.reshape(a.shape[0], -1, a.shape[3]) for a in (x, dy))
    return jnp.einsum("gkc,gkn->gcn", *tokens, precision=lax.Precision.HIGHEST)


def channel_products(dy: Float[Array, "g m e d"], x: Float[Array, "g m T d"]) -> Array:
    """sum over examples and channels of dy_e x_t, for every group."""
    return jnp.einsum("gmed,gmtd->get", dy, x, precision=lax.Precision.HIGHEST)


def in_groups(parts: Parts, a: Array, b: Array) -> Array:
    """The sum over examples of the results of `parts`, group by group."""
    m = a.shape[0]
    groups = next(g for g in range(min(_GROUPS, m), 0, -1) if m % g == 0)
    cut = (x.reshape(groups, m // groups, *x.shape[1:]) for x in (a, b))
    # without this, XLA would merge the sum of products into one product
    return jnp.sum(lax.optimization_barrier(parts(*cut)), axis=0)
