"""A multilayer perceptron on the T bits as signs: the learner that knows nothing about positions.

    logit = w . gelu(W_2 gelu(W_1 (2x - 1) + b_1) + b_2) + b

Started from a rotation-invariant distribution it is expected to need about T examples (Ng 2004);
Adam is not rotation invariant, so this is measured, not taken from there.
"""

import math
from typing import Literal

from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.activations import activated
from capax.attention.products import matmul
from capax.learners.zoo.frame import Params, Shapes, drawn
from capax.training.specs.architecture import Architecture


class MLP(Architecture):
    """Two hidden layers of `width` units; weights ~ N(0, 1/fan-in)."""

    architecture: Literal["mlp"] = "mlp"
    width: int = Field(default=128, ge=1)

    def shapes(self) -> Shapes:
        """Every array by name."""
        n = self.width
        return {"W_1": (self.T, n), "b_1": (n,), "W_2": (n, n), "b_2": (n,), "w": (n,), "b": ()}

    def init(self, key: Array) -> Params:
        """Weights with the variance that keeps signals at the size of their inputs."""
        fan_in = {"W_1": self.T, "W_2": self.width, "w": self.width}
        return drawn(self.shapes(), key, lambda name: 1 / math.sqrt(fan_in[name]))

    def logits(self, params: Params, inputs: Float[Array, "m T"]) -> Float[Array, "m"]:
        """Two layers and a read-out."""
        hidden = activated(
            "gelu", matmul(2.0 * inputs - 1.0, params["W_1"]) + params["b_1"][None, :]
        )
        hidden = activated("gelu", matmul(hidden, params["W_2"]) + params["b_2"][None, :])
        return matmul(hidden, params["w"]) + params["b"]

    @property
    def floats_per_example(self) -> int:
        return 2 * self.T + 8 * self.width
