"""Deep sets: attention without selection. Every position has the same weight.

    h = (1/T) sum_t (W_V LN(x_t) + b_V)

The Transformer's head with all scores equal: it cannot select positions.
"""

from typing import Literal

from jaxtyping import Array, Float

from capax.attention.products import matmul
from capax.learners.zoo.frame import Framed, Params, Shapes, sums_over_tokens, tokens


class DeepSets(Framed):
    """A mean over positions, then the MLP block."""

    architecture: Literal["deep_sets"] = "deep_sets"

    def mixer_shapes(self) -> Shapes:
        return {"W_V": (self.d, self.d), "b_V": (self.d,)}

    def mix(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m k"]:
        """The mean of the values: the table of 2 T values, summed by the design matrix."""
        values = matmul(tokens(params), params["W_V"]) + params["b_V"][None, None, :]
        return sums_over_tokens(inputs, values) / self.T
