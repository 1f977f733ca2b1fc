"""The last state of a recurrent cell, and its gradient: both loops, then products over all tokens.

The loops are those of `cells`, or on a GPU that runs them the kernels. The gradient of the weights
is a sum over positions and examples, W's = sum_t h_{t-1}^T du_t: one product per position, then
their sum, so that a GPU has work for all its multiprocessors.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from capax.training.recurrent import cells, kernel
from capax.training.recurrent.cells import CELLS, Cell, Inputs, Kept


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
    cell = CELLS[name]
    arguments = (_inputs(table, bits), W, b)
    return lax.platform_dependent(
        *arguments,
        cuda=partial((kernel if kernel.runs_here(cell, W.shape[0]) else cells).last, cell),
        default=partial(cells.last, cell),
    )


def _ahead(
    name: str, table: Array, bits: Array, W: Array, b: Array
) -> tuple[Array, tuple[Kept, Array, Array]]:
    cell = CELLS[name]
    seen = lax.platform_dependent(
        *(_inputs(table, bits), W, b),
        cuda=partial((kernel if kernel.runs_here(cell, W.shape[0]) else cells).kept, cell),
        default=partial(cells.kept, cell),
    )
    return seen.h[-1], (seen, bits, W)


def _back(name: str, kept: tuple[Kept, Array, Array], dh: Array) -> tuple[Array, ...]:
    (seen, bits, W), cell = kept, CELLS[name]
    da, du = lax.platform_dependent(
        *(dh, seen, W),
        cuda=partial((kernel if kernel.runs_here(cell, W.shape[0]) else cells).back, cell),
        default=partial(cells.back, cell),
    )
    table = jnp.stack([_einsum("mt,tmg->tg", chosen, da) for chosen in (1 - bits, bits)])
    return table, jnp.zeros_like(bits), *_of_weights(cell, seen.h, da, du)


def _of_weights(cell: Cell, h: Array, da: Array, du: Array) -> tuple[Array, Array]:
    """Gradients of W and b. All gates but the last have du = da; h is 0 before the first."""
    n = h.shape[2]
    first, last = da[..., : (cell.num_gates - 1) * n], du
    parts = [_einsum("tmn,tmg->tng", h[:-1], x[1:]) for x in (first, last)]
    # XLA would make one product of a sum of products again, one that fills no GPU
    dW = [jnp.sum(lax.optimization_barrier(part), axis=0) for part in parts]
    db = [jnp.sum(x, axis=(0, 1)) for x in (first, last)]
    return jnp.concatenate(dW, axis=1), jnp.concatenate(db)


def _einsum(form: str, a: Array, b: Array) -> Array:
    return jnp.einsum(form, a, b, precision=lax.Precision.HIGHEST)


def _inputs(table: Array, bits: Array) -> Inputs:
    return Inputs(table[0], table[1] - table[0], bits.T)


last_state.defvjp(_ahead, _back)
