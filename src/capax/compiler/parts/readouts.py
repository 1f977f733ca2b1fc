"""Read-outs of the selection head: a scalar one, or a ReLU network with one hidden layer.

Both read the head in the directions P_i (i in I) and v. `position_values[i]` is the row of W_V
(scalar: of W_V W_C w) in direction P_i and `cls_values` the row in direction v, so at a pattern x
of the relevant bits the head gives  u = (sum_i position_values[i] act_i + omega cls_values) / Z,
act_i = 1 for an active bit and delta_v for an inactive one.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

INSIDE = 1 - 1e-9
"""Plateaus and errors keep this distance from the limits of the formulas: the stored weights are
rounded, and the certificate has to hold for them."""


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


@dataclass(frozen=True)
class MLPReadout:
    """output = w_2 . relu(W_1^T u + b_1) + b_2, decided at 1/2 when the function is Boolean.

    `symbol_values`: the rows of W_V in the directions E_c, if they are read.
    """

    position_values: Float[np.ndarray, "s k"]
    cls_values: Float[np.ndarray, " k"]
    W_1: Float[np.ndarray, "k n"]
    b_1: Float[np.ndarray, " n"]
    w_2: Float[np.ndarray, " n"]
    b_2: float
    symbol_values: Float[np.ndarray, "M k"] | None = None

    @property
    def num_units(self) -> int:
        """Number n of hidden ReLU units."""
        return self.b_1.size


Readout = ScalarReadout | MLPReadout


def constant_readout(value: float) -> MLPReadout:
    """A function of no variable: no hidden unit at all, the output bias is the value."""
    none = np.zeros(0)
    return MLPReadout(np.zeros((0, 1)), np.ones(1), np.zeros((1, 0)), none, none, float(value))
