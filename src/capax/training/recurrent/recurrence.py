"""The last state of a recurrent cell, and its gradient: both loops, then one product.

The loops are in `cells`; a GPU that supports them runs kernels. Gradients of the weights and of the
table are sums over examples of (h, 1 - bit, bit)^T du, position by position; the gradient of W is
their sum over positions. One sum over all tokens would occupy a single multiprocessor.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from capax.training.recurrent import cells, recurrence_kernel
from capax.training.recurrent.cells import CELLS, CellInputs, Kept


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def last_state(
    name: str,
    table: Float[Array, "2 T Gn"],
    bits: Float[Array, "m T"],
    W: Float[Array, "n Gn"],
    b: Float[Array, "Gn"],
) -> Float[Array, "m n"]:
    """The last hidden state of the cell `name` (`lstm` or `gru`, see `cells`); table: what enters
    for every (bit, position). Not differentiable in the bits."""
    return _loop(name, "last", W, _inputs(table, bits), W, b)


def _loop(name: str, what: str, W: Array, *arguments: Any) -> Any:
    """A loop of `cells`; on a GPU the kernel instead, if it runs and numbers are float32."""
    cell, own = CELLS[name], W.dtype == jnp.float32
    kernels = own and recurrence_kernel.runs_here(cell, W.shape[0])
    loops = recurrence_kernel if kernels else cells
    return lax.platform_dependent(
        *arguments,
        cuda=partial(getattr(loops, what), cell),
        default=partial(getattr(cells, what), cell),
    )


def _ahead(
    name: str, table: Array, bits: Array, W: Array, b: Array
) -> tuple[Array, tuple[Kept, Array, Array]]:
    h, seen = _loop(name, "kept", W, _inputs(table, bits), W, b)
    return h, (seen, bits, W)


def _back(name: str, kept: tuple[Kept, Array, Array], dh: Array) -> tuple[Array, ...]:
    (seen, bits, W), n = kept, kept[2].shape[0]
    du, da = _loop(name, "back", W, dh, seen, W)
    # without this, XLA would merge the sum of products into one product
    products = lax.optimization_barrier(_einsum("tma,tmg->tag", seen.rows, du))
    of_table = products[:, n:]
    db = jnp.sum(of_table, axis=(0, 1))
    if name == "gru":  # its last gate has a separate da
        last = _einsum("tmc,tmg->tcg", seen.rows[:, :, n:], da)
        of_table = jnp.concatenate([of_table[:, :, : 2 * n], last], axis=2)
    of_bits = jnp.zeros_like(bits)
    return jnp.moveaxis(of_table, 1, 0), of_bits, jnp.sum(products[:, :n], axis=0), db


def _einsum(form: str, a: Array, b: Array) -> Array:
    return jnp.einsum(form, a, b, precision=lax.Precision.HIGHEST)


def _inputs(table: Array, bits: Array) -> CellInputs:
    return CellInputs(table[0], table[1] - table[0], bits.T)


last_state.defvjp(_ahead, _back)
