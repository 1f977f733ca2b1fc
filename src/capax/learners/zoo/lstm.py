"""Long short-term memory (Hochreiter and Schmidhuber 1997), gates in PyTorch's order i, f, g, o.

    (i, f, g, o) = W_x x_t + W_h h + b,   c = sigmoid(f) c + sigmoid(i) tanh(g),
    h = sigmoid(o) tanh(c);   the last h is read.

W_x x_t is one of two rows for each position, so the products with inputs are done on the table.
"""

import math
from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.products import matmul
from capax.learners.zoo.frame import Framed, Params, Shapes, tokens
from capax.training.recurrent.columns import last_column
from capax.training.recurrent.recurrence import last_state


def lstm_last(
    table: Float[Array, "2 T g"],
    bits: Float[Array, "m T"],
    W_h: Float[Array, "n g"],
    last: Callable[..., Array] = last_state,
) -> Float[Array, "m n"]:
    """The last hidden state; table = W_x x + b of every (bit, position)."""
    return last("lstm", table, bits, W_h, jnp.zeros(W_h.shape[1], W_h.dtype))


class LSTM(Framed):
    """One layer of `hidden` units, read at the end; weights ~ N(0, 1/(3 hidden))."""

    architecture: Literal["lstm"] = "lstm"
    hidden: int = Field(default=48, ge=1)

    @property
    def mixed(self) -> int:
        return self.hidden

    def mixer_shapes(self) -> Shapes:
        n = self.hidden
        return {"W_x": (self.d, 4 * n), "b_x": (4 * n,), "W_h": (n, 4 * n)}

    def deviation(self, name: str) -> float:
        """The variance of PyTorch's uniform start."""
        return 1 / math.sqrt(3 * self.hidden) if name in ("W_x", "W_h") else self.init_scale

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The state after the last token."""
        return lstm_last(self._table(params), inputs, params["W_h"])

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The same with examples in columns."""
        return lstm_last(self._table(params), inputs, params["W_h"], last_column)

    def _table(self, params: Params) -> Float[Array, "2 T g"]:
        return matmul(tokens(params), params["W_x"]) + params["b_x"][None, None, :]

    @property
    def cpu_floats(self) -> tuple[int, int]:
        """Both states, four gates, tanh(c)."""
        return super().floats_per_example + 8 * self.T * self.hidden, 0

    @property
    def floats_per_example(self) -> int:
        return super().floats_per_example + 12 * self.T * self.hidden

    @property
    def floats_per_answer(self) -> int:
        """One state, for every T."""
        return 3 * self.T + 8 * (self.d + self.mlp_width) + 16 * self.hidden
