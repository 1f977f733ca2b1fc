"""A multilayer perceptron on the T bits as signs: a learner without embeddings of positions.

    logit = w . gelu(W_2 gelu(W_1 (2x - 1) + b_1) + b_2) + b

Started from a rotation-invariant distribution it is expected to need about T examples (Ng 2004);
Adam is not rotation invariant, so this is measured here.
"""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Array, Float
from pydantic import Field

from capax.attention.parts.activations import activated, activation_lipschitz
from capax.attention.products import matmul
from capax.capacity.bound import Assumption
from capax.capacity.network.field_bounds import FieldBound, mlp_bound
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

    def layer_matrices(self, params: Params) -> list[np.ndarray]:
        """A_1, A_2, A_3 with biases as the last column, a unit of value 1 passed on beside them.

        logit = A_3 s(A_2 s(A_1 (2x - 1, 1))), s = gelu on the units and the identity on the 1.
        """
        W_1, b_1, W_2, b_2, w, b = (np.asarray(params[n], np.float64) for n in self.shapes())
        inner = [np.vstack([np.c_[W.T, bias], np.eye(1, len(W) + 1, len(W))])
                 for W, bias in ((W_1, b_1), (W_2, b_2))]  # fmt: skip
        return [*inner, np.append(w, b)[None, :]]

    def spectral_bound(self, params: Params, *, margin: float) -> FieldBound:
        """Bartlett, Foster, Telgarsky (2017) at the norms of these parameters.

        The bound holds for all networks with norms at most these, if they were chosen before the
        data were seen; for norms measured after training it is a comparison, not a certificate.
        """
        A = self.layer_matrices(params)
        norms = [(float(np.linalg.norm(M, 2)), float(np.linalg.norm(M, axis=1).sum())) for M in A]
        slope = activation_lipschitz("gelu")
        width, B_X = max(self.T, self.width) + 1, math.sqrt(self.T + 1)
        made = mlp_bound(norms, width=width, B_X=B_X, margin=margin, L_sigma=slope)
        chosen = Assumption("the norms were chosen before the data were seen")
        return replace(made, assumptions=(*made.assumptions, chosen), status="comparison")

    @property
    def floats_per_example(self) -> int:
        return 2 * self.T + 8 * self.width
