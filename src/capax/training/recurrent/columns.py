"""The loops of recurrent cells on a CPU: a column for every example, an array for every gate.

With examples along the rows of memory, gates are whole slices and every loop over entries is a loop
of vector instructions; XLA does not vectorise gates that are cut out of wider rows, or a sum that
is cut afterwards. A step back adds its share of the gradient of W while it is in the cache.
Cells as in `cells`: u = W^T h + b, a = base_t + bit change_t.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from capax.attention.parts.activations import sigmoid, tanh
from capax.attention.products import matmul, over_examples, transposed

Gates = Sequence[Float[Array, "n m"]]
Kept = tuple[Array, ...]  # arrays [T, n, m]


class ColumnCell(NamedTuple):
    """step: a, u, h, c -> h, c, kept. back: dh, dc, kept -> du, da of the last gate (None: its
    du), the part of dh that does not go through W, dc. kept begins with the h that came in."""

    num_gates: int
    step: Callable[..., tuple[Array, Array, Kept]]
    back: Callable[..., tuple[list[Array], Array | None, Array, Array]]


def _lstm_step(a: Gates, u: Gates, h: Array, c: Array) -> tuple[Array, Array, Kept]:
    z = [x + y for x, y in zip(a, u, strict=True)]
    i, f, g, o = sigmoid(z[0]), sigmoid(z[1]), tanh(z[2]), sigmoid(z[3])
    new = f * c + i * g
    seen = tanh(new)
    return o * seen, new, (h, c, i, f, g, o, seen)


def _lstm_back(dh: Array, dc: Array, kept: Kept) -> tuple[list[Array], None, Array, Array]:
    _, c, i, f, g, o, seen = kept
    dc = dc + dh * o * (1 - seen * seen)
    d_o = dh * seen * o * (1 - o)
    du = [dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), d_o]
    return du, None, jnp.zeros_like(dh), dc * f


def _gru_step(a: Gates, u: Gates, h: Array, c: Array) -> tuple[Array, Array, Kept]:
    r, z = sigmoid(a[0] + u[0]), sigmoid(a[1] + u[1])
    n = tanh(a[2] + r * u[2])
    return n + z * (h - n), c, (h, r, z, n, u[2])


def _gru_back(dh: Array, dc: Array, kept: Kept) -> tuple[list[Array], Array, Array, Array]:
    h, r, z, n, u_n = kept
    da_n = dh * (1 - z) * (1 - n * n)
    da_z = dh * (h - n) * z * (1 - z)
    return [da_n * u_n * r * (1 - r), da_z, da_n * r], da_n, dh * z, dc


COLUMN_CELLS = {
    "lstm": ColumnCell(4, _lstm_step, _lstm_back),
    "gru": ColumnCell(3, _gru_step, _gru_back),
}


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def last_column(
    name: str,
    table: Float[Array, "2 T Gn"],
    bits: Float[Array, "m T"],
    W: Float[Array, "n Gn"],
    b: Float[Array, "Gn"],
) -> Float[Array, "m n"]:
    """`recurrence.last_state`, with examples in columns."""
    return _ahead(name, False, table, bits, W, b)[0].T


def _ahead(
    name: str, keep: bool, table: Array, bits: Array, W: Array, b: Array
) -> tuple[Array, Kept | None]:
    cell, (n, m) = COLUMN_CELLS[name], (W.shape[0], bits.shape[0])
    base, change = (_cut(x, n, axis=1) for x in (table[0], table[1] - table[0]))
    start, W_turned = jnp.zeros((n, m), W.dtype), transposed(W)

    def step(state: tuple[Array, Array], now: tuple[list[Array], list[Array], Array]):
        (h, c), (base, change, bit) = state, now
        a = [x[:, None] + y[:, None] * bit[None, :] for x, y in zip(base, change, strict=True)]
        u = [x + y[:, None] for x, y in zip(_cut(matmul(W_turned, h), n), _cut(b, n), strict=True)]
        h, c, kept = cell.step(a, u, h, c)
        return (h, c), kept if keep else None

    (h, _), kept = lax.scan(step, (start, start), (base, change, bits.T))
    return h, kept


def _back(
    name: str, residual: tuple[Kept, Array, Array], dh: Float[Array, "m n"]
) -> tuple[Array, Array, Array, Array]:
    (kept, bits, W), cell = residual, COLUMN_CELLS[name]
    n = W.shape[0]

    def step(state: tuple[Array, Array, Array], now: tuple[Kept, Array]):
        (dh, dc, dW), (kept, bit) = state, now
        gates, da, past, dc = cell.back(dh, dc, kept)
        du = _stacked(gates)
        both = jnp.stack([1 - bit, bit])
        of_table = over_examples(du, both)
        own = None if da is None else over_examples(da, both)
        return (past + matmul(W, du), dc, dW + over_examples(kept[0], du)), (of_table, own)

    start = (dh.T, jnp.zeros_like(dh.T), jnp.zeros_like(W))
    (_, _, dW), (of_table, own) = lax.scan(step, start, (kept, bits.T), reverse=True)
    db = jnp.sum(of_table, axis=(0, 2))
    if own is not None:  # of the last gate
        of_table = jnp.concatenate([of_table[:, :-n], own], axis=1)
    return jnp.moveaxis(of_table, 2, 0), jnp.zeros_like(bits), dW, db


def _kept(
    name: str, table: Array, bits: Array, W: Array, b: Array
) -> tuple[Array, tuple[Kept | None, Array, Array]]:
    h, kept = _ahead(name, True, table, bits, W, b)
    return h.T, (kept, bits, W)


last_column.defvjp(_kept, _back)


def _cut(x: Array, n: int, axis: int = 0) -> list[Array]:
    """The gates, n entries each."""
    return [lax.slice_in_dim(x, k, k + n, axis=axis) for k in range(0, x.shape[axis], n)]


def _stacked(gates: Gates) -> Float[Array, "Gn m"]:
    """Stacked rows, written in place: XLA does not vectorise a concatenation."""
    n, m = gates[0].shape
    whole = jnp.zeros((len(gates) * n, m), gates[0].dtype)
    for k, gate in enumerate(gates):
        whole = lax.dynamic_update_slice_in_dim(whole, gate, k * n, axis=0)
    return whole
