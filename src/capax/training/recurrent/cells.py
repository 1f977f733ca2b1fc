"""LSTM and GRU: one step, one step back, and loops of both. The GPU kernel does the same.

The input at position t is a row of a table, base_t + bit change_t; the recurrent part is

    u = h W + b,   u in R^(G n), gates in PyTorch's order

LSTM (i, f, g, o): z = a + u, c <- sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c).
GRU (r, z, n): r, z = sigmoid(a + u), n = tanh(a_n + r u_n), h <- (1 - z) n + z h.

For the backward pass each step keeps its incoming h, its gates after their activation, and one more
array of n numbers: c of the LSTM, u_n of the GRU. The complement of the bit and the bit are stored
after h: their product with du is the gradient of the table, as that of h is the gradient of W.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from capax.attention.products import matmul


class Kept(NamedTuple):
    """The stored numbers for the backward pass, for every position."""

    rows: Float[Array, "T m n+2"]  # (h, 1 - bit, bit)
    gates: Float[Array, "T m Gn"]
    extra: Float[Array, "T m n"]


class CellInputs(NamedTuple):
    """The inputs: rows of a table, and the bit that chooses between two of them."""

    base: Float[Array, "T Gn"]
    change: Float[Array, "T Gn"]
    bits: Float[Array, "T m"]


@dataclass(frozen=True)
class RecurrentCell:
    """step: a, u, h, extra -> h, gates, extra. back: dh, dc, gates, extra, the extra and h before
    -> du, da of the last gate, the part of dh that does not go through W, dc."""

    name: str
    num_gates: int
    step: Callable[..., tuple[Array, Array, Array]]
    back: Callable[..., tuple[Array, Array, Array, Array]]


def _lstm_step(a: Array, u: Array, h: Array, c: Array) -> tuple[Array, Array, Array]:
    del h
    i, f, g, o = jnp.split(a + u, 4, axis=1)
    i, f, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jax.nn.sigmoid(o)
    g = jnp.tanh(g)
    c = f * c + i * g
    return o * jnp.tanh(c), jnp.concatenate([i, f, g, o], axis=1), c


def _lstm_back(
    dh: Array, dc: Array, gates: Array, c: Array, c_before: Array, h_before: Array
) -> tuple[Array, Array, Array, Array]:
    del h_before
    i, f, g, o = jnp.split(gates, 4, axis=1)
    seen = jnp.tanh(c)
    dc = dc + dh * o * (1 - seen**2)
    d_o = dh * seen * o * (1 - o)
    du = [dc * g * i * (1 - i), dc * c_before * f * (1 - f), dc * i * (1 - g**2), d_o]
    return jnp.concatenate(du, axis=1), d_o, jnp.zeros_like(dh), dc * f


def _gru_step(a: Array, u: Array, h: Array, extra: Array) -> tuple[Array, Array, Array]:
    del extra
    (a_r, a_z, a_n), (u_r, u_z, u_n) = jnp.split(a, 3, axis=1), jnp.split(u, 3, axis=1)
    r, z = jax.nn.sigmoid(a_r + u_r), jax.nn.sigmoid(a_z + u_z)
    n = jnp.tanh(a_n + r * u_n)
    return (1 - z) * n + z * h, jnp.concatenate([r, z, n], axis=1), u_n


def _gru_back(
    dh: Array, dc: Array, gates: Array, u_n: Array, u_n_before: Array, h_before: Array
) -> tuple[Array, Array, Array, Array]:
    del u_n_before
    r, z, n = jnp.split(gates, 3, axis=1)
    da_n = dh * (1 - z) * (1 - n**2)
    da_z = dh * (h_before - n) * z * (1 - z)
    da_r = da_n * u_n * r * (1 - r)
    return jnp.concatenate([da_r, da_z, da_n * r], axis=1), da_n, dh * z, dc


CELLS = {
    "lstm": RecurrentCell("lstm", 4, _lstm_step, _lstm_back),
    "gru": RecurrentCell("gru", 3, _gru_step, _gru_back),
}


def last(cell: RecurrentCell, inputs: CellInputs, W: Array, b: Array) -> Float[Array, "m n"]:
    """The state after the last position."""

    def step(state: tuple[Array, Array], now: CellInputs):
        h, _, extra = _stepped(cell, now, state, W, b)
        return (h, extra), None

    (h, _), _ = lax.scan(step, _zero(inputs, W), inputs)
    return h


def kept(
    cell: RecurrentCell, inputs: CellInputs, W: Array, b: Array
) -> tuple[Float[Array, "m n"], Kept]:
    """The same, with the stored numbers for the backward pass."""

    def step(state: tuple[Array, Array], now: CellInputs):
        h, gates, extra = _stepped(cell, now, state, W, b)
        bit = now.bits[:, None]
        return (h, extra), Kept(jnp.concatenate([state[0], 1 - bit, bit], axis=1), gates, extra)

    (h, _), seen = lax.scan(step, _zero(inputs, W), inputs)
    return h, seen


def back(
    cell: RecurrentCell, dh: Float[Array, "m n"], seen: Kept, W: Array
) -> tuple[Float[Array, "T m Gn"], Float[Array, "T m n"]]:
    """du of every position, and da of the last gate (for the other gates it equals du)."""

    def step(state: tuple[Array, Array], now: tuple[Kept, Array]):
        (dh, dc), (here, extra_before) = state, now
        h_before = here.rows[:, : W.shape[0]]
        du, da, past, dc = cell.back(dh, dc, here.gates, here.extra, extra_before, h_before)
        return (past + matmul(du, W.T), dc), (du, da)

    before = jnp.concatenate([jnp.zeros_like(seen.extra[:1]), seen.extra[:-1]])
    return lax.scan(step, (dh, jnp.zeros_like(dh)), (seen, before), reverse=True)[1]


def _stepped(cell: RecurrentCell, now: CellInputs, state: tuple[Array, Array], W: Array, b: Array):
    h, extra = state
    a = now.base[None, :] + now.bits[:, None] * now.change[None, :]
    return cell.step(a, matmul(h, W) + b[None, :], h, extra)


def _zero(inputs: CellInputs, W: Array) -> tuple[Array, Array]:
    zero = jnp.zeros((inputs.bits.shape[1], W.shape[0]), W.dtype)
    return zero, zero
