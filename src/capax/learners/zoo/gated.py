"""Recurrent cells with gates: what the LSTM and the GRU of the zoo share."""

import math
from typing import ClassVar

from jaxtyping import Array, Float

from capax.attention.products import matmul
from capax.learners.zoo.frame import Framed, Params, Shapes, tokens


class Gated(Framed):
    """One layer of `hidden` units, read at the end; weights ~ N(0, 1/(3 hidden)).

    A subclass names its number of `gates`, and the numbers per unit and position that the backward
    pass keeps on a CPU (`kept_on_cpu`) and elsewhere (`kept`).
    """

    gates: ClassVar[int]
    kept_on_cpu: ClassVar[int]
    kept: ClassVar[int]
    hidden: int

    @property
    def in_a_row(self) -> bool:
        return True

    @property
    def mixed(self) -> int:
        return self.hidden

    def mixer_shapes(self) -> Shapes:
        width = self.gates * self.hidden
        return {"W_x": (self.d, width), "b_x": (width,), "W_h": (self.hidden, width)}

    def deviation(self, name: str) -> float:
        """The variance of PyTorch's uniform start."""
        return 1 / math.sqrt(3 * self.hidden) if name in ("W_x", "W_h") else self.init_scale

    def input_table(self, params: Params) -> Float[Array, "2 T g"]:
        """W_x x + b_x of every (bit, position)."""
        return matmul(tokens(params), params["W_x"]) + params["b_x"][None, None, :]

    @property
    def cpu_floats(self) -> tuple[int, int]:
        return super().floats_per_example + self.kept_on_cpu * self.T * self.hidden, 0

    @property
    def floats_per_example(self) -> int:
        return super().floats_per_example + self.kept * self.T * self.hidden

    @property
    def floats_per_answer(self) -> int:
        """One state, for every T."""
        return 3 * self.T + 8 * (self.d + self.mlp_width) + 16 * self.hidden
