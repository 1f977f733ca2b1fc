"""A selective state-space layer with diagonal A, as in Mamba (Gu and Dao 2023), read at the end.

    s_t = exp(D_t A) s_{t-1} + D_t B_t x_t,      D_t = softplus(W_D x_t + b_D) > 0,  A < 0
    h = silu(W_G cls) (C s_T + D_0 cls)          states s [d, n], C from [CLS], the last token

Only the last state is read, and A is diagonal, so the recurrence has a closed form (ours):

    s_T = sum_t exp(A S_t) D_t B_t x_t,    S_t = sum_{u > t} D_u,

exact and stable, for every exponent is negative: one cumulative sum instead of T steps. D_t and
D_t B_t x_t depend on (bit, position) only and come from tables.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.products import matmul
from capax.learners.zoo.frame import Framed, Params, Shapes, chosen, layer_norm, tokens


def last_state(
    step: Float[Array, "m T d"], drive: Float[Array, "m T d n"], A: Float[Array, "d n"]
) -> Float[Array, "m d n"]:
    """sum_t exp(A S_t) drive_t with S_t the steps after t: s_T of the recurrence."""
    after = jnp.cumsum(step[:, ::-1], axis=1)[:, ::-1] - step
    return jnp.sum(jnp.exp(A[None, None] * after[..., None]) * drive, axis=1)


class SSM(Framed):
    """One selective layer with `states` states per channel; A starts at -1, -2, .. (S4D)."""

    architecture: Literal["ssm"] = "ssm"
    states: int = Field(default=4, ge=1)

    def mixer_shapes(self) -> Shapes:
        d, n = self.d, self.states
        matrices: Shapes = {"W_D": (d, d), "W_B": (d, n), "W_C": (d, n), "W_G": (d, d)}
        return matrices | {"b_D": (d,), "log_A": (d, n), "gain_skip": (d,)}

    def init(self, key: Array) -> Params:
        """Steps D start around 1/T, so that the first token is not forgotten at the start."""
        params = super().init(key)
        start = jnp.log(jnp.arange(1, self.states + 1, dtype=jnp.float32))
        params["log_A"] = jnp.broadcast_to(start[None, :], (self.d, self.states))
        params["b_D"] = jnp.full(self.d, jnp.log(jnp.expm1(1.0 / self.T)), jnp.float32)
        return params

    def deviation(self, name: str) -> float:
        return self.d**-0.5 if name in ("W_B", "W_C", "W_G") else self.init_scale

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The last state, read by [CLS]."""
        x = tokens(params)
        own = layer_norm(params["cls"], params["gain_1"], params["bias_1"])
        steps = jax.nn.softplus(matmul(x, params["W_D"]) + params["b_D"][None, None, :])
        drive = (steps * x)[..., None] * matmul(x, params["W_B"])[:, :, None, :]
        flat = chosen(inputs, drive.reshape(2, self.T, -1))
        states = last_state(
            chosen(inputs, steps),
            flat.reshape(*inputs.shape, self.d, self.states),
            -jnp.exp(params["log_A"]),
        )
        y = matmul(states, matmul(own, params["W_C"])) + (params["gain_skip"] * own)[None, :]
        return y * jax.nn.silu(matmul(own, params["W_G"]))[None, :]

    @property
    def floats_per_example(self) -> int:
        return super().floats_per_example + 4 * self.T * self.d * (self.states + 1)
