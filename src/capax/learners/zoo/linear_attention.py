"""Linear attention (Katharopoulos et al. 2020): softmax's exp(q.k) becomes phi(q).phi(k).

    h = sum_t a_t v_t / sum_t a_t,   a_t = phi(q) . phi(k_t),   phi = elu + 1 > 0

One query, of [CLS], per head; keys and values depend on (bit, position) only, so the exact collapse
of the Transformer applies: a table of 2 T weighted values, summed by the design matrix.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field, model_validator

from capax.attention.products import matmul
from capax.errors import require
from capax.learners.zoo.frame import (
    Framed,
    Params,
    Shapes,
    layer_norm,
    sums_over_tokens,
    tokens,
)


def feature(x: Array) -> Array:
    """phi(x) = elu(x) + 1, positive."""
    return jax.nn.elu(x) + 1.0


class LinearAttention(Framed):
    """H heads of width d / H with the kernel phi(q).phi(k) in place of exp."""

    architecture: Literal["linear_attention"] = "linear_attention"
    heads: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _heads_divide_width(self):
        require(self.d % self.heads == 0, "heads", f"a divisor of d = {self.d}", self.heads)
        return self

    def mixer_shapes(self) -> Shapes:
        d = self.d
        weights: Shapes = {f"W_{x}": (d, d) for x in "QKV"}
        return weights | {f"b_{x}": (d,) for x in "QKV"}

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """Weighted values and weights in one table; [CLS] takes part as a key of its own."""
        x = tokens(params)
        own = layer_norm(params["cls"], params["gain_1"], params["bias_1"])
        query = feature(matmul(own, params["W_Q"]) + params["b_Q"])
        table = self._weighted(params, x, query)
        last = self._weighted(params, own[None, None, :], query)[0, 0]
        sums = sums_over_tokens(inputs, table) + last[None, :]
        values, weights = sums[:, : self.d], sums[:, self.d :]
        return values / jnp.repeat(weights, self.d // self.heads, axis=1)

    def _weighted(
        self, params: Params, x: Float[Array, "A T d"], query: Float[Array, "d"]
    ) -> Float[Array, "A T dH"]:
        """(a_t v_t, a_t) of every token, head by head."""
        A, T, d = x.shape
        key = feature(matmul(x, params["W_K"]) + params["b_K"][None, None, :])
        value = matmul(x, params["W_V"]) + params["b_V"][None, None, :]
        weight = jnp.sum((key * query[None, None, :]).reshape(A, T, self.heads, -1), axis=-1)
        weighted = value * jnp.repeat(weight, d // self.heads, axis=2)
        return jnp.concatenate([weighted, weight], axis=2)
