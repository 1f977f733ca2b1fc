"""A convolutional network: neighbours are mixed, twice, then a mean over positions.

    y = gelu(conv_2(gelu(conv_1(x)))),    h = (1/T) sum_t y_t

Kernels of odd length, zero padding, as `torch.nn.Conv1d(padding="same")`. The first convolution is
linear in the tokens, so each of its taps is a table of 2 T rows: no product with m rows.
"""

import math
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field, model_validator

from capax.attention.activations import activated
from capax.attention.products import matmul, over_width
from capax.errors import require
from capax.learners.zoo.frame import Framed, Params, Shapes, chosen, tokens


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

    @property
    def floats_per_example(self) -> int:
        return super().floats_per_example + (2 * self.kernel + 6) * self.T * self.channels
