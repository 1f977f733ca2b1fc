"""Any function of s symbols by one head and a ReLU network that isolates patterns (Appendix B.4).

The paper reads the s positions by s heads. One head is enough (ours). There are K > 2 classes of
symbols, of weights w_c spaced by h = (1 - delta)/(K - 1), see `selection`; omega = 1. The head
reads u_i in the direction P_i, u_v in the direction v, and u_q with value w_c in the direction of
every symbol of class c. With A_i = w(x_i) the weight of relevant position i,

    Z u_i = A_i,    Z u_v = 1,    Z u_q = sum_{i in I} A_i^2 + tau sum_{t not in I} w(x_t)^2:

the points (A_1, .., A_s, sum A_i^2) lie on a paraboloid, so that a hyperplane isolates each of them
(two weights need no u_q: there A^2 is affine in A). For pattern S, with W_i = w(S_i),

    l_S = 2 sum_i W_i u_i + (h^2/2 - sum_i W_i^2) u_v - u_q
        = (h^2/2 - sum_i (A_i - W_i)^2 - tau sum_t w(x_t)^2) / Z.

Where the input shows another pattern, some |A_i - W_i| >= h and l_S <= -h^2/(2Z) < 0. Where it
shows S, with rho = (T - s) tau,

    l_S >= gamma_S = (h^2/2 - rho)/(1 + sum_i W_i + rho),

and relu(l_S/gamma_S) - relu(l_S/gamma_S - 1) is 1 there and 0 elsewhere: error 0 on all M^T inputs.
"""

import numpy as np
from jaxtyping import Float

from capax.boolean import SparseFunction
from capax.boolean.functions import all_patterns
from capax.compiler.construction import general
from capax.compiler.parts.readouts import INSIDE, MLPReadout
from capax.compiler.parts.selection import Selection
from capax.compiler.parts.temperature import least_norm


def symbol_head(head: Selection, f: SparseFunction) -> Selection | None:
    """The least ||W_QK||_F at which every pattern keeps half of its margin of temperature zero."""
    return least_norm(head, lambda option: symbol_gap(option, f))


def symbol_gap(selection: Selection, f: SparseFunction) -> float:
    """The smallest a with gamma_S >= its value at tau = delta = 0 over `KEPT`: linear in rho."""
    K = f.alphabet
    kept = _sums(np.arange(K) / (K - 1), f)
    kept = 1 / (2 * general.KEPT * (K - 1) ** 2 * (1 + kept))
    height, sums = _height(selection, K), _sums(selection.class_weights, f)
    leak = float(((height - kept * (1 + sums)) / (1 + kept)).min())
    return general.gap_for_leak(leak, selection.T - selection.s)


def symbol_margins(selection: Selection, f: SparseFunction) -> Float[np.ndarray, " patterns"]:
    """gamma_S of each isolated pattern."""
    leak = (selection.T - selection.s) * selection.tau
    sums = _sums(selection.class_weights, f)
    return (_height(selection, f.alphabet) - leak) / (1 + sums + leak)


def symbol_readout(selection: Selection, f: SparseFunction) -> MLPReadout:
    """Two units for each isolated pattern; f is a function of the K classes."""
    s, w = f.s, selection.class_weights
    shown = w[all_patterns(s, f.alphabet)[general.isolated_patterns(f)]]  # [patterns, s]
    middle = _height(selection, f.alphabet) - (shown**2).sum(axis=1)
    planes = np.concatenate([2 * shown.T, middle[None], -np.ones((1, len(shown)))])
    planes = planes / (INSIDE * symbol_margins(selection, f))
    jump = general.jumps(f)
    squares = np.zeros((len(selection.classes), s + 2))
    squares[:, -1] = w[list(selection.classes)]
    return MLPReadout(
        position_values=np.eye(s, s + 2),
        cls_values=np.eye(s + 2)[s],
        W_1=np.concatenate([planes, planes], axis=1),
        b_1=np.repeat([0.0, -1.0], len(jump)),
        w_2=np.concatenate([jump, -jump]),
        b_2=general.common_value(f),
        symbol_values=squares,
    )


def _height(selection: Selection, K: int) -> float:
    """h^2/2."""
    return ((1 - selection.delta) / (K - 1)) ** 2 / 2


def _sums(weights: Float[np.ndarray, " K"], f: SparseFunction) -> Float[np.ndarray, " patterns"]:
    """sum_i W_i of each isolated pattern."""
    return weights[all_patterns(f.s, f.alphabet)[general.isolated_patterns(f)]].sum(axis=1)
