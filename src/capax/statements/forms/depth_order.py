"""Theorem A.17 with B_w restored and the printed product over j < i: true up to a factor of depth.

The proof prints alpha_i = product of the gains of the layers j < i where the recursion gives j > i
(erratum P11). As a bound the printed form is nevertheless true for k <= d, up to a factor c L^3
with an absolute constant c, because its factors k and d are larger than necessary:

1. Tokens that enter layer i have length l_i <= product over j < i of L B_C B_V <= alpha_{<i}. So a
   change of the weights of layer i moves the output by at most (`weight_change_bound`)
       B_w alpha_{>i} l_i L (B_V |dW_C| + B_C |dW_V| + 2 B_C B_V |dW_QK|),
   and alpha_{>i} gain_i l_i <= P, the product of all gains.
2. After sigma a layer has k numbers per token. Later layers use them only through k x k matrices:
   W_C W_V', W_C W_QK' W_C^T (' = next layer), and (W_C W_C^T)^(1/2), which gives the lengths for
   the projection. Their Frobenius norms are at most sqrt(k) times products of spectral norms. A
   linear map to R^k is covered on a (1/2)-net of 5^k directions, where it is a scalar linear class.
   So each of the 3L + 1 pieces costs at most c k (k + log(mT)) (B_w P/eps_i)^2 nats.
3. Hence ln N <= c' L^3 k^2 (B_w P)^2 log(dmT)/eps^2. The printed form is at least a quarter of the
   same without c' L^3 (`smallest_printed_form`): its last term alone has alpha_{<L} times
       2 d L B_C B_V B_QK21 + k L B_C B_V21 >= k gain_L / 2.

Whether the factor L^3 can be dropped is open here. Without the factors k and d step 3 fails.
"""

import math
from collections.abc import Sequence
from typing import Unpack

from capax.statements.forms.printed_bounds import (
    DepthSizes,
    LayerBounds,
    log_size,
    theorem_a_17,
)


def restored_form(
    layers: Sequence[LayerBounds], B_w: float, eps: float, **sizes: Unpack[DepthSizes]
) -> float:
    """A.17 with B_w as a factor of the sum and the product over j < i, without hidden constant.

    The layers are reversed, so that a product over j < i becomes one over j > i.
    """
    return theorem_a_17(tuple(reversed(layers)), B_w, eps, **sizes)


def smallest_printed_form(
    layers: Sequence[LayerBounds], B_w: float, eps: float, **sizes: Unpack[DepthSizes]
) -> float:
    """(B_w k P/2)^2 log(dmT)/eps^2: step 3, at most `restored_form` where k <= d."""
    P = math.prod(layer.gain(sizes.get("L_sigma", 1.0)) for layer in layers)
    return (B_w * sizes["k"] * P / 2 / eps) ** 2 * log_size(sizes)


def input_length(layers: Sequence[LayerBounds], i: int, L_sigma: float = 1.0) -> float:
    """l_i: a bound on the length of the tokens that enter layer i (from 0), tokens of length 1."""
    length = 1.0
    for layer in layers[:i]:
        length = min(1.0, L_sigma * layer.B_C * layer.B_V * length)
    return length


def weight_change_bound(
    layers: Sequence[LayerBounds],
    i: int,
    B_w: float,
    *,
    W_QK: float,
    W_V: float,
    W_C: float,
    L_sigma: float = 1.0,
) -> float:
    """Step 1: how far the output moves when layer i changes by these spectral norms."""
    layer = layers[i]
    later = math.prod(other.gain(L_sigma) for other in layers[i + 1 :])
    inside = layer.B_V * W_C + layer.B_C * W_V + 2 * layer.B_C * layer.B_V * W_QK
    return B_w * later * input_length(layers, i, L_sigma) * L_sigma * inside
