"""Gated recurrent unit (Cho et al. 2014), gates in PyTorch's order r, z, n.

r = sigmoid(a_r + u_r),  z = sigmoid(a_z + u_z),  n = tanh(a_n + r u_n),
h = (1 - z) n + z h,     a = W_x x_t + b_x,  u = W_h h + b_h;   the last h is read.
"""

from typing import ClassVar, Literal

from jaxtyping import Array, Float
from pydantic import Field

from capax.learners.zoo.frame import Params, Shapes
from capax.learners.zoo.gated import Gated
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


class GRU(Gated):
    """Three gates; u_n has a bias of its own (b_h)."""

    gates: ClassVar[int] = 3
    kept_on_cpu: ClassVar[int] = 6  # the state, three gates, u_n
    kept: ClassVar[int] = 10
    architecture: Literal["gru"] = "gru"
    hidden: int = Field(default=56, ge=1)

    def mixer_shapes(self) -> Shapes:
        return {**super().mixer_shapes(), "b_h": (3 * self.hidden,)}

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The state after the last token."""
        return gru_last(self.input_table(params), inputs, params["W_h"], params["b_h"])

    def cpu_mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The same with examples in columns."""
        return last_column("gru", self.input_table(params), inputs, params["W_h"], params["b_h"])
