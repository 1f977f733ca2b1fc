"""Gated recurrent unit (Cho et al. 2014), gates in PyTorch's order r, z, n.

r = sigmoid(a_r + u_r),  z = sigmoid(a_z + u_z),  n = tanh(a_n + r u_n),
h = (1 - z) n + z h,     a = W_x x_t + b_x,  u = W_h h + b_h;   the last h is read.
"""

import math
from typing import Literal

from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.products import matmul
from capax.learners.zoo.frame import Framed, Params, Shapes, tokens
from capax.training.recurrent.columns import last_column
from capax.training.recurrent.recurrence import last_state


def gru_last(
    table: Float[Array, "2 T g"],
    bits: Float[Array, "m T"],
    W_h: Float[Array, "n g"],
    b_h: Float[Array, "g"],
) -> Float[Array, "m n"]:
    """The last hidden state; table = W_x x + b_x of every (bit, position)."""
    return last_state("gru", table, bits, W_h, b_h)


class GRU(Framed):
    """One layer of `hidden` units, read at the end; weights ~ N(0, 1/(3 hidden))."""

    architecture: Literal["gru"] = "gru"
    hidden: int = Field(default=56, ge=1)

    @property
    def mixed(self) -> int:
        return self.hidden

    def mixer_shapes(self) -> Shapes:
        n = self.hidden
        return {"W_x": (self.d, 3 * n), "b_x": (3 * n,), "W_h": (n, 3 * n), "b_h": (3 * n,)}

    def deviation(self, name: str) -> float:
        """The variance of PyTorch's uniform start."""
        return 1 / math.sqrt(3 * self.hidden) if name in ("W_x", "W_h") else self.init_scale

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The state after the last token."""
        return gru_last(self._table(params), inputs, params["W_h"], params["b_h"])

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The same with examples in columns."""
        return last_column("gru", self._table(params), inputs, params["W_h"], params["b_h"])

    def _table(self, params: Params) -> Float[Array, "2 T g"]:
        return matmul(tokens(params), params["W_x"]) + params["b_x"][None, None, :]

    @property
    def cpu_floats(self) -> tuple[int, int]:
        """The state, three gates, u_n."""
        return super().floats_per_example + 6 * self.T * self.hidden, 0

    @property
    def floats_per_example(self) -> int:
        return super().floats_per_example + 10 * self.T * self.hidden

    @property
    def floats_per_answer(self) -> int:
        """One state, for every T."""
        return 3 * self.T + 8 * (self.d + self.mlp_width) + 16 * self.hidden
