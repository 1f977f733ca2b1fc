"""MLP-Mixer (Tolstikhin et al. 2021): an MLP over positions, an MLP over channels, a mean.

y = x + V_2 gelu(V_1 LN(x))          over positions, the same for every channel
z = y + gelu(LN(y) U_1) U_2          over channels, the same at every position
h = (1/T) sum_t z_t
"""

import math
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.activations import activated
from capax.attention.products import over_positions, over_width
from capax.learners.zoo.frame import (
    Framed,
    Params,
    Shapes,
    chosen,
    layer_norm,
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

    @property
    def floats_per_example(self) -> int:
        wide = 6 * self.d + 4 * self.channel_width
        return super().floats_per_example + self.T * wide + 4 * self.d * self.position_width
