"""A selective state-space layer with diagonal A, as in Mamba (Gu and Dao 2023), read at the end.

    s_t = exp(D_t A) s_{t-1} + D_t B_t x_t,      D_t = softplus(W_D x_t + b_D) > 0,  A < 0
    h = silu(W_G cls) (C s_T + D_0 cls)          states s [d, n], C from [CLS], the last token

Only the last state is read, and A is diagonal, so the recurrence has a closed form (ours):

    s_T = sum_t exp(A S_t) D_t B_t x_t,    S_t = sum_{u > t} D_u,

exact and stable, for every exponent is negative: one cumulative sum instead of T steps. D_t and
D_t B_t x_t depend on (bit, position) only and come from tables.

On a CPU the recurrence itself is faster: exp(D_t A) is one of two numbers at each position, so that
no exponential is left for every example.
"""

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.products import matmul, over_examples
from capax.learners.zoo.frame import Framed, Params, Shapes, chosen, layer_norm, tokens


def last_state(
    step: Float[Array, "m T d"], drive: Float[Array, "m T d n"], A: Float[Array, "d n"]
) -> Float[Array, "m d n"]:
    """sum_t exp(A S_t) drive_t with S_t the steps after t: s_T of the recurrence."""
    after = jnp.cumsum(step[:, ::-1], axis=1)[:, ::-1] - step
    return jnp.sum(jnp.exp(A[None, None] * after[..., None]) * drive, axis=1)


@jax.custom_vjp
def state_by_steps(
    decay: Float[Array, "2 T N"], drive: Float[Array, "2 T N"], bits: Float[Array, "m T"]
) -> Float[Array, "N m"]:
    """s_T of s_t = decay_t s_(t-1) + drive_t, the rows of both chosen by the bit."""
    return _states(decay, drive, bits, keep=False)[0]


def _states(decay: Array, drive: Array, bits: Array, keep: bool) -> tuple[Array, Any]:
    def step(state: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array | None]:
        decay, drive, bit = now
        return _of_bit(decay, bit) * state + _of_bit(drive, bit), state if keep else None

    start = jnp.zeros((decay.shape[2], len(bits)), decay.dtype)
    return lax.scan(step, start, (jnp.moveaxis(decay, 1, 0), jnp.moveaxis(drive, 1, 0), bits.T))


def _of_bit(rows: Float[Array, "2 N"], bit: Float[Array, "m"]) -> Float[Array, "N m"]:
    return jnp.where(bit[None, :] > 0, rows[1][:, None], rows[0][:, None])


def _states_kept(decay: Array, drive: Array, bits: Array) -> tuple[Array, tuple[Any, ...]]:
    last, before = _states(decay, drive, bits, keep=True)
    return last, (before, decay, bits)


def _states_back(kept: tuple[Any, ...], ds: Float[Array, "N m"]) -> tuple[Array, Array, Array]:
    before, decay, bits = kept

    def step(ds: Array, now: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        before, decay, bit = now
        both = jnp.stack([1 - bit, bit])
        of_rows = over_examples(both, ds * before), over_examples(both, ds)
        return _of_bit(decay, bit) * ds, of_rows

    seen = (before, jnp.moveaxis(decay, 1, 0), bits.T)
    _, (of_decay, of_drive) = lax.scan(step, ds, seen, reverse=True)
    return jnp.moveaxis(of_decay, 1, 0), jnp.moveaxis(of_drive, 1, 0), jnp.zeros_like(bits)


state_by_steps.defvjp(_states_kept, _states_back)


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
        steps, drive = self._tables(params)
        flat = chosen(inputs, drive.reshape(2, self.T, -1))
        states = last_state(
            chosen(inputs, steps),
            flat.reshape(*inputs.shape, self.d, self.states),
            -jnp.exp(params["log_A"]),
        )
        return self._read(params, states)

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The same, position by position."""
        steps, drive = self._tables(params)
        decay = jnp.exp(-steps[..., None] * jnp.exp(params["log_A"])[None, None])
        states = state_by_steps(*(x.reshape(2, self.T, -1) for x in (decay, drive)), inputs)
        return self._read(params, states.T.reshape(-1, self.d, self.states))

    def _tables(self, params: Params) -> tuple[Float[Array, "2 T d"], Float[Array, "2 T d n"]]:
        """D and D B x of every (bit, position)."""
        x = tokens(params)
        steps = jax.nn.softplus(matmul(x, params["W_D"]) + params["b_D"][None, None, :])
        return steps, (steps * x)[..., None] * matmul(x, params["W_B"])[:, :, None, :]

    def _read(self, params: Params, states: Float[Array, "m d n"]) -> Float[Array, "m k"]:
        own = layer_norm(params["cls"], params["gain_1"], params["bias_1"])
        y = matmul(states, matmul(own, params["W_C"])) + (params["gain_skip"] * own)[None, :]
        return y * jax.nn.silu(matmul(own, params["W_G"]))[None, :]

    @property
    def cpu_floats(self) -> tuple[int, int]:
        """Numbers per example on a CPU: those of any machine, and the states at every position."""
        return super().floats_per_example + 2 * self.T * self.d * self.states, 0

    @property
    def floats_per_example(self) -> int:
        return super().floats_per_example + 4 * self.T * self.d * (self.states + 1)
