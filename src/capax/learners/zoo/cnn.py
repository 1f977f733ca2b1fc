"""A convolutional network: neighbours are mixed, twice, then a mean over positions.

    y = gelu(conv_2(gelu(conv_1(x)))),    h = (1/T) sum_t y_t

Kernels of odd length, zero padding, as `torch.nn.Conv1d(padding="same")`. The first convolution is
linear in the tokens, so each of its taps is a table of 2 T rows: no product with m rows.

On a CPU the next steps also use tables. At a position the first convolution reads k bits, one of
2^k patterns; so there are 2^k T rows of gelu(conv_1), and one product gives the taps of the second
convolution on each of them. For every token of every example only k rows of this table are added,
and its gradient is added to k rows. A bias belongs to the rows of the first tap.
"""

import math
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int
from pydantic import Field, model_validator

from capax.attention.parts.activations import activated, gelu_and_slope, gelu_kept
from capax.attention.products import matmul, over_width
from capax.errors import require
from capax.learners.zoo.frame import Framed, Params, Shapes, chosen, tokens

_LONGEST = 7  # kernel whose 2^k patterns are listed


def shifted(x: Float[Array, "m T c"], by: int) -> Float[Array, "m T c"]:
    """Row t of the result is row t + by of x, zeros beyond the ends."""
    T = x.shape[1]
    padded = jnp.pad(x, ((0, 0), (max(0, -by), max(0, by)), (0, 0)))
    return padded[:, max(0, by) : max(0, by) + T]


def conv1d(
    x: Float[Array, "m T c"], W: Float[Array, "k c n"], b: Float[Array, "n"]
) -> Float[Array, "m T n"]:
    """sum_j W_j x_{t+j}, one matrix product per tap; W[j] is `weight[:, :, j].T` of PyTorch."""
    half = W.shape[0] // 2
    taps = (over_width(shifted(x, j - half), W[j]) for j in range(W.shape[0]))
    return sum(taps, start=b[None, None, :])


class CNN(Framed):
    """Two convolutions of `channels` channels and an odd `kernel`."""

    architecture: Literal["cnn"] = "cnn"
    channels: int = Field(default=32, ge=1)
    kernel: int = Field(default=5, ge=1)

    @model_validator(mode="after")
    def _odd(self):
        require(self.kernel % 2 == 1, "kernel", "an odd number", self.kernel)
        return self

    @property
    def mixed(self) -> int:
        return self.channels

    def mixer_shapes(self) -> Shapes:
        c, k = self.channels, self.kernel
        return {"W_1": (k, self.d, c), "b_1": (c,), "W_2": (k, c, c), "b_2": (c,)}

    def deviation(self, name: str) -> float:
        fan_in = {"W_1": self.kernel * self.d, "W_2": self.kernel * self.channels}
        return 1 / math.sqrt(fan_in[name]) if name in fan_in else self.init_scale

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """Both convolutions, then the mean over positions."""
        x, half, start = tokens(params), self.kernel // 2, params["b_1"][None, None, :]
        tables = (matmul(x, params["W_1"][j]) for j in range(self.kernel))
        taps = (shifted(chosen(inputs, table), j - half) for j, table in enumerate(tables))
        y = activated("gelu", sum(taps, start=start))
        return jnp.mean(activated("gelu", conv1d(y, params["W_2"], params["b_2"])), axis=1)

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The same by tables of patterns."""
        if self.kernel > _LONGEST:
            return self.mix(params, inputs)
        seen = gelu_kept(pattern_table(tokens(params), params["W_1"], params["b_1"]))
        rows = jnp.pad(seen.reshape(-1, self.channels), ((0, 1), (0, 0)))  # beyond the ends: 0
        W = jnp.moveaxis(params["W_2"], 0, 1).reshape(self.channels, -1)
        bias = jnp.pad(params["b_2"][None], ((0, self.kernel - 1), (0, 0)))
        taps = matmul(rows, W).reshape(-1, *bias.shape) + bias[None]
        return mean_of_taps(taps, pattern_rows(inputs, self.kernel))

    @property
    def cpu_floats(self) -> tuple[int, int]:
        """Slopes of the second gelu; tables of k taps, of their gradients, of the layer before."""
        if self.kernel > _LONGEST:
            return super().cpu_floats
        tables = (2 * self.kernel + 6) * 2**self.kernel * self.T * self.channels
        return super().floats_per_example + 4 * self.T * self.channels, tables

    @property
    def floats_per_example(self) -> int:
        return super().floats_per_example + (2 * self.kernel + 6) * self.T * self.channels


def pattern_table(
    x: Float[Array, "2 T d"], W: Float[Array, "k d c"], b: Float[Array, "c"]
) -> Float[Array, "T 2**k c"]:
    """The first convolution at every position, for every pattern; bit j belongs to tap j."""
    (k, d, c), T = W.shape, x.shape[1]
    taps = matmul(x.reshape(2 * T, d), jnp.moveaxis(W, 0, 1).reshape(d, k * c))
    taps = jnp.pad(taps.reshape(2, T, k, c), ((0, 0), (k // 2, k // 2), (0, 0), (0, 0)))
    at_taps = jnp.stack([taps[:, j : j + T, j] for j in range(k)])
    bit = np.arange(2**k)[:, None] >> np.arange(k)[None, :] & 1
    both = np.concatenate([1 - bit, bit], axis=1).astype(x.dtype)
    entering = jnp.moveaxis(at_taps, 0, 1).reshape(2 * k, T, c)
    return (
        jnp.einsum("pj,jtc->tpc", both, entering, precision=lax.Precision.HIGHEST) + b[None, None]
    )


def pattern_rows(bits: Float[Array, "m T"], k: int) -> Int[Array, "positions m"]:
    """Rows of the table at every position; at k // 2 positions beyond its ends the row after it."""
    T, half = bits.shape[1], k // 2
    beyond = jnp.pad(bits.T.astype(jnp.int32), ((half, half), (0, 0)))
    pattern = sum(beyond[j : j + T] << j for j in range(k))
    rows = pattern + 2**k * jnp.arange(T, dtype=jnp.int32)[:, None]
    return jnp.pad(rows, ((half, half), (0, 0)), constant_values=2**k * T)


@jax.custom_vjp
def mean_of_taps(
    taps: Float[Array, "n k c"], rows: Int[Array, "positions m"]
) -> Float[Array, "m c"]:
    """(1/T) sum_t gelu(sum_j taps[rows_(t+j), j]), a position at a time: all in the cache."""
    return _mean(taps, rows, keep=False)[0]


def _mean(
    taps: Array, rows: Array, keep: bool
) -> tuple[Array, tuple[Float[Array, "T mc"] | None, Int[Array, "T k m"], Array]]:
    """The numbers of a position lie in one row: loops over c of them would end in part of a
    vector."""
    _, k, c = taps.shape
    T = rows.shape[0] - k + 1
    at = jnp.stack([k * rows[j : j + T] + j for j in range(k)], axis=1)
    table = taps.reshape(-1, c)

    def add(total: Array, now: Int[Array, "k m"]) -> tuple[Array, Array | None]:
        read = (table.at[tap].get(mode="promise_in_bounds") for tap in now)
        z = sum((x.reshape(-1) for x in read), start=jnp.zeros_like(total))
        y, slope = gelu_and_slope(z) if keep else (activated("gelu", z), None)
        return total + y, slope

    total, slopes = lax.scan(add, jnp.zeros(rows.shape[1] * c, taps.dtype), at)
    return total.reshape(-1, c) / T, (slopes, at, taps)


def _back(kept: tuple[Any, ...], dh: Float[Array, "m c"]) -> tuple[Array, None]:
    slopes, at, taps = kept
    _, k, c = taps.shape
    dz = (slopes * (dh / len(slopes)).reshape(1, -1)).reshape(-1, c)
    of_table = jnp.zeros_like(taps).reshape(-1, c)
    for j in range(k):
        of_table = of_table.at[at[:, j].reshape(-1)].add(dz, mode="promise_in_bounds")
    return of_table.reshape(taps.shape), None


mean_of_taps.defvjp(partial(_mean, keep=True), _back)
