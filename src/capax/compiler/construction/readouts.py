"""What follows the selection head: a scalar read-out, or a ReLU network with one hidden layer.

Both read the head in the directions P_i (i in I) and v. `position_values[i]` is the row of W_V
(scalar: of W_V W_C w) in direction P_i and `cls_values` the row in direction v, so at a pattern x
of the relevant bits the head gives  u = (sum_i position_values[i] act_i + omega cls_values) / Z,
act_i = 1 for an active bit and delta_v for an inactive one.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.compiler.construction.literals import pattern_bits
from capax.compiler.construction.selection import Selection

INSIDE = 1 - 1e-9
"""Plateaus begin, and errors end, this much inside what the formulas allow: the stored weights are
rounded, and what is promised has to hold for them."""


@dataclass(frozen=True)
class ScalarReadout:
    """f_tf-scalar: output = scale (sum_i nu_i act_i + omega cls_value) / Z, decided by its sign.

    `nu` = position values, `cls_value` = -lambda/omega, `scale` = the read-out weight w.
    """

    nu: Float[np.ndarray, " s"]
    cls_value: float
    scale: float

    @property
    def num_units(self) -> int:
        """There is no MLP."""
        return 0

    def numerators(self, selection: Selection) -> Float[np.ndarray, "rows 1"]:
        """scale (sum_i nu_i act_i + omega cls_value) at each of the 2^s patterns."""
        sums = activities(selection) @ self.nu + selection.omega * self.cls_value
        return self.scale * sums[:, None]


@dataclass(frozen=True)
class MLPReadout:
    """output = w_2 . relu(W_1^T u + b_1) + b_2, decided at 1/2 when the function is Boolean."""

    position_values: Float[np.ndarray, "s k"]
    cls_values: Float[np.ndarray, " k"]
    W_1: Float[np.ndarray, "k n"]
    b_1: Float[np.ndarray, " n"]
    w_2: Float[np.ndarray, " n"]
    b_2: float

    @property
    def num_units(self) -> int:
        """Number n of hidden ReLU units."""
        return self.b_1.size

    def numerators(self, selection: Selection) -> Float[np.ndarray, "rows k"]:
        """Z u at each of the 2^s patterns of the relevant bits."""
        return activities(selection) @ self.position_values + selection.omega * self.cls_values

    def network(self, u: Float[np.ndarray, "rows k"]) -> Float[np.ndarray, " rows"]:
        """w_2 . relu(W_1^T u + b_1) + b_2 for each row of u."""
        return np.maximum(u @ self.W_1 + self.b_1, 0.0) @ self.w_2 + self.b_2


Readout = ScalarReadout | MLPReadout


def activities(selection: Selection) -> Float[np.ndarray, "rows s"]:
    """act at every pattern of the relevant bits: 1 where the bit is beta, delta_v elsewhere."""
    on = pattern_bits(selection.s) == selection.beta
    return np.where(on, 1.0, selection.delta_v)


def constant_readout(value: float) -> MLPReadout:
    """A function of no variable: no hidden unit at all, the output bias is the value."""
    none = np.zeros(0)
    return MLPReadout(np.zeros((0, 1)), np.ones(1), np.zeros((1, 0)), none, none, float(value))
