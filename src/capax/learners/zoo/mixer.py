"""MLP-Mixer (Tolstikhin et al. 2021): an MLP over positions, an MLP over channels, a mean.

y = x + V_2 gelu(V_1 LN(x))          over positions, the same for every channel
z = y + gelu(LN(y) U_1) U_2          over channels, the same at every position
h = (1/T) sum_t z_t

On a CPU the first product, linear in the bits, is one of the bits with a table V_1[e, t] change_t,
and its gradient one of them with dy: two products instead of three. Means over positions are taken
before U_2, not after it. LN subtracts the mean over channels. V_2 does not mix channels, so that
mean is subtracted from the inputs of V_2, which are fewer. Examples are columns: loops over entries
are vector instructions.
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.parts.activations import activated, gelu_and_slope, gelu_kept
from capax.attention.products import (
    computed_once,
    matmul,
    over_examples,
    over_positions,
    over_width,
    transposed,
)
from capax.learners.zoo.frame import (
    Framed,
    Params,
    Shapes,
    chosen,
    layer_norm,
    sums_over_tokens,
    tokens,
)


class Mixer(Framed):
    """One Mixer layer with `position_width` and `channel_width` hidden units."""

    architecture: Literal["mixer"] = "mixer"
    position_width: int = Field(default=32, ge=1)
    channel_width: int = Field(default=64, ge=1)

    def mixer_shapes(self) -> Shapes:
        T, d, e, n = self.T, self.d, self.position_width, self.channel_width
        positions: Shapes = {"V_1": (e, T), "b_1": (e,), "V_2": (T, e), "b_2": (T,)}
        channels = {"U_1": (d, n), "b_3": (n,), "U_2": (n, d), "b_4": (d,)}
        return positions | channels | {"gain_3": (d,), "bias_3": (d,)}

    def deviation(self, name: str) -> float:
        fan_in = {"V_1": self.T, "V_2": self.position_width}
        fan_in |= {"U_1": self.d, "U_2": self.channel_width}
        return 1 / math.sqrt(fan_in[name]) if name in fan_in else self.init_scale

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """Positions, channels, mean."""
        x = chosen(inputs, tokens(params))
        hidden = activated("gelu", over_positions(params["V_1"], x) + params["b_1"][None, :, None])
        y = x + over_positions(params["V_2"], hidden) + params["b_2"][None, :, None]
        normal = layer_norm(y, params["gain_3"], params["bias_3"])
        channels = activated(
            "gelu", over_width(normal, params["U_1"]) + params["b_3"][None, None, :]
        )
        z = y + over_width(channels, params["U_2"]) + params["b_4"][None, None, :]
        return jnp.mean(z, axis=1)

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The same with examples in columns."""
        x, V_2 = tokens(params), params["V_2"]
        hidden = gelu_kept(over_bits(params["V_1"], x, inputs) + params["b_1"][:, None, None])
        entering = x + params["b_2"][None, :, None]
        U = params["gain_3"][:, None] * params["U_1"]
        b = matmul(params["bias_3"], params["U_1"]) + params["b_3"]
        centred = hidden - jnp.mean(hidden, axis=1, keepdims=True)
        fixed = entering - jnp.mean(entering, axis=2, keepdims=True)
        channels = sums_of_channels(centred, V_2, fixed, inputs, U, b)
        whole = matmul(jnp.sum(V_2, axis=0), hidden.reshape(len(hidden), -1))
        y = whole.reshape(self.d, -1).T + sums_over_tokens(inputs, entering)
        return (y + matmul(channels.T, params["U_2"])) / self.T + params["b_4"][None, :]

    @property
    def cpu_floats(self) -> tuple[int, int]:
        """Of every position rows and slopes of the channels; of every hidden unit six arrays."""
        wide = self.d + self.channel_width
        return super().floats_per_example + self.T * wide + 6 * self.d * self.position_width, 0

    @property
    def floats_per_example(self) -> int:
        wide = 6 * self.d + 4 * self.channel_width
        return super().floats_per_example + self.T * wide + 4 * self.d * self.position_width


@jax.custom_vjp
def over_bits(
    V: Float[Array, "e T"], x: Float[Array, "2 T d"], bits: Float[Array, "m T"]
) -> Float[Array, "e d m"]:
    """sum_t V_et x_t of every example, as a product of a table with the bits."""
    table = V[:, None, :] * (x[1] - x[0]).T[None]
    changed = matmul(table.reshape(-1, bits.shape[1]), bits.T)
    return changed.reshape(*table.shape[:2], -1) + matmul(V, x[0])[:, :, None]


def _over_bits_back(
    kept: tuple[Array, Array, Array], dy: Float[Array, "e d m"]
) -> tuple[Array, Array, Array]:
    """Sums over channels and over hidden units are written out: as reductions they would be calls
    of XLA's library for products, which takes ten times as long for them."""
    V, x, bits = kept
    (e, d, m), T = dy.shape, bits.shape[1]
    of_table = matmul(dy.reshape(-1, m), bits).reshape(e, d, T)
    total, change = jnp.sum(dy, axis=2), x[1] - x[0]
    by_channel = sum(of_table[:, c] * change[None, :, c] for c in range(d))
    of_change = jnp.transpose(sum(of_table[k] * V[k][None] for k in range(e)))
    of_x = jnp.stack([matmul(V.T, total) - of_change, of_change])
    return by_channel + matmul(total, x[0].T), of_x, jnp.zeros_like(bits)


over_bits.defvjp(lambda V, x, bits: (over_bits(V, x, bits), (V, x, bits)), _over_bits_back)


@jax.custom_vjp
def sums_of_channels(
    hidden: Float[Array, "e d m"],
    V: Float[Array, "T e"],
    x: Float[Array, "2 T d"],
    bits: Float[Array, "m T"],
    U: Float[Array, "d n"],
    b: Float[Array, "n"],
) -> Float[Array, "n m"]:
    """sum_t gelu(U^T norm(x_t + sum_e V_te hidden_e) + b), norm without gain and bias.

    Over the d channels, hidden and x have mean 0.
    """
    rows, each = _rows(hidden, V), (x[0], x[1] - x[0], bits.T)
    U_turned = transposed(U)

    def add(t: Array, total: Array) -> Array:
        normal, _ = _normal(rows, *each, t)
        return total + activated("gelu", matmul(U_turned, normal) + b[:, None])

    return lax.fori_loop(0, len(V), add, jnp.zeros((U.shape[1], len(bits)), U.dtype))


def _rows(hidden: Array, V: Array) -> Float[Array, "T d m"]:
    d, m = hidden.shape[1:]
    return matmul(V, hidden.reshape(-1, d * m)).reshape(-1, d, m)


def _at(x: Array, t: Array) -> Array:
    return lax.dynamic_slice_in_dim(x, t, 1, allow_negative_indices=False)[0]


@computed_once
def _normal(
    rows: Array, base: Array, change: Array, bits: Array, t: Array
) -> tuple[Float[Array, "d m"], Float[Array, "1 m"]]:
    """Normal channels of position t, and the factor that made them normal."""
    y = _at(rows, t) + _at(base, t)[:, None] + _at(change, t)[:, None] * _at(bits, t)[None, :]
    scale = lax.rsqrt(jnp.mean(y * y, axis=0, keepdims=True) + 1e-5)
    return y * scale, scale


def _channels_kept(
    hidden: Array, V: Array, x: Array, bits: Array, U: Array, b: Array
) -> tuple[Array, tuple[Array, ...]]:
    """The same, and what the backward pass needs: it makes the normal channels once more."""
    (T, _), (m, n) = V.shape, (len(bits), U.shape[1])
    rows, each = _rows(hidden, V), (x[0], x[1] - x[0], bits.T)
    U_turned = transposed(U)

    def add(t: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        total, slopes = state
        normal, _ = _normal(rows, *each, t)
        new, slope = gelu_and_slope(matmul(U_turned, normal) + b[:, None])
        return total + new, _with(slopes, slope, t)

    start = (jnp.zeros((n, m), U.dtype), jnp.zeros((T, n, m), U.dtype))
    total, slopes = lax.fori_loop(0, T, add, start)
    return total, (slopes, rows, *each, hidden, V, U)


def _with(x: Array, new: Array, t: Array) -> Array:
    return lax.dynamic_update_index_in_dim(x, new, t, 0, allow_negative_indices=False)


def _channels_back(residual: tuple[Array, ...], dy: Float[Array, "n m"]) -> tuple[Array, ...]:
    """Gradients of rows take the place of the rows."""
    slopes, rows, base, change, turned, hidden, V, U = residual

    def step(t: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        dU, sum_of_slopes, rows = state
        normal, scale = _normal(rows, base, change, turned, t)
        slope = _at(slopes, t)
        dz = slope * dy
        of_normal = matmul(U, dz)
        along = jnp.mean(of_normal * normal, axis=0, keepdims=True)
        of_row = scale * (of_normal - normal * along)
        return dU + over_examples(normal, dz), sum_of_slopes + slope, _with(rows, of_row, t)

    start = (jnp.zeros_like(U), jnp.zeros_like(dy), rows)
    dU, sum_of_slopes, of_rows = lax.fori_loop(0, len(V), step, start)
    bits = turned.T
    of_x = jnp.moveaxis(matmul(of_rows, jnp.stack([1 - bits, bits]).T), 2, 0)
    of_rows = of_rows.reshape(len(V), -1)
    of_hidden = matmul(V.T, of_rows).reshape(hidden.shape)
    dV = over_examples(hidden.reshape(len(hidden), -1), of_rows).T  # this way round: a third faster
    return of_hidden, dV, of_x, jnp.zeros_like(bits), dU, jnp.sum(dy * sum_of_slopes, axis=1)


sums_of_channels.defvjp(_channels_kept, _channels_back)
