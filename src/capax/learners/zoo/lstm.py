"""Long short-term memory (Hochreiter and Schmidhuber 1997), gates in PyTorch's order i, f, g, o.

    (i, f, g, o) = W_x x_t + W_h h + b,   c = sigmoid(f) c + sigmoid(i) tanh(g),
    h = sigmoid(o) tanh(c);   the last h is read.

W_x x_t is one of two rows for each position, so the products with inputs are done on the table.
"""

from collections.abc import Callable
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float
from pydantic import Field

from capax.learners.zoo.frame import Params
from capax.learners.zoo.gated import Gated
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


class LSTM(Gated):
    """Four gates."""

    gates: ClassVar[int] = 4
    kept_on_cpu: ClassVar[int] = 8  # both states, four gates, tanh(c)
    kept: ClassVar[int] = 12
    architecture: Literal["lstm"] = "lstm"
    hidden: int = Field(default=48, ge=1)

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The state after the last token."""
        return lstm_last(self.input_table(params), inputs, params["W_h"])

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The same with examples in columns."""
        return lstm_last(self.input_table(params), inputs, params["W_h"], last_column)
