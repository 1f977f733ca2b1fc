"""The errors of underflow in float32, and whether its numbers stay in range.

A result of float32 is (x op y)(1 + delta) + e with |delta| <= 2^-24 and |e| <= eta = 2^-126:
results below eta may be flushed to zero (GPUs and XLA do so). Stored weights are such results too.
The relative part is in `float32`; here is the absolute part, which the later factors multiply: W_V
below 2^-149 is zero in float32, whatever W_C makes of it in real arithmetic.

The rule for a sum of n products, with absolute errors a of x and b of y:

    |error| <= sum (|x| b + |y| a) + n eta,        a = b = eta where x, y are stored weights.

A product of three matrices may be formed from the left or from the right, and underflows at
different places; the sum of both errors covers both. The factors (1 + delta) around these terms,
products of two errors and the rounding of these sums are covered by a factor 4, as long as the
relative part of each step stays below 10 % (four steps: 1.1^4 < 1.5), which `float32` checks.

Overflow: every partial sum is at most twice the sum of the absolute values. `within_range` says
that all of them lie below 2^127, so that no number becomes infinite.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from capax.attention import ClsScalar, DeterministicPositions, OrthonormalBag
from capax.attention.parts.scores import attention_scale
from capax.compiler.proof.tables import HeadTables, Model, token_sizes

ETA = 2.0**-126
TOP = 2.0**126
SAFE = 4.0
"""Covers factors (1 + delta), products of two errors, and the rounding of these bounds."""


class TokenErrors(NamedTuple):
    """Absolute errors of every token by bit [T, 2, ...] and of [CLS], at most."""

    tokens: np.ndarray
    cls: np.ndarray


def is_sparse(model: Model) -> bool:
    """Tokens are sums of at most two unit vectors: no weights, and two terms in a product."""
    return isinstance(model.encoding, DeterministicPositions | OrthonormalBag)


def terms_of_a_token(model: Model) -> int:
    """How many products the image of a token adds up."""
    return 2 if is_sparse(model) else model.encoding.d


def score_underflow(model: Model) -> TokenErrors:
    """Of the scores scale (x_t . W_K q), q = W_Q^T x_CLS, formed in either order."""
    W_Q, W_K = _sizes(model.W_Q), _sizes(model.W_K)
    r = W_Q.shape[1]
    _, q = token_sizes(model.encoding, W_Q)
    q_error = _image_underflow(model, W_Q).cls + ETA  # and the underflow of the scale
    direction = W_K @ q_error + ETA * (q.sum() + r)
    found = []
    for pick in (0, 1):
        weighted = token_sizes(model.encoding, direction[:, None])[pick][..., 0]
        from_right = weighted + _image_underflow(model, (W_K @ q)[:, None])[pick][..., 0]
        keys, lost = token_sizes(model.encoding, W_K)[pick], _image_underflow(model, W_K)[pick]
        from_left = lost @ q + keys @ q_error + r * ETA
        found.append(SAFE * (attention_scale(r, model.scale) * (from_right + from_left) + 2 * ETA))
    return TokenErrors(*found)


def value_underflow(model: Model, tables: HeadTables) -> TokenErrors:
    """Of the values, for a mean of them, with the underflow of weights and products.

    Each of the T + 1 weights is off by eta twice (exp and the quotient), which moves a mean by at
    most 4 (T + 1) eta max |v|; each of the T + 1 products loses eta.
    """
    largest = max(float(tables.values.size.max()), float(tables.cls_value.size.max()))
    mean = (tables.T + 1) * ETA * (1 + 4 * largest)
    lost = _image_underflow(model, _sizes(model.W_V))
    return TokenErrors(*(SAFE * (part + mean) for part in lost))


def scalar_underflow(model: ClsScalar, u: Float[np.ndarray, " k"]) -> float:
    """Of u . W_C . w for |u| at most so much, formed in either order."""
    W_C, w = _sizes(model.W_C), _sizes(model.w)
    k, q = W_C.shape
    from_left = ETA * ((u.sum() + k) * w.sum() + (u @ W_C).sum() + q)
    folded = ETA * (W_C.sum(1) + w.sum() + q + 1)
    return SAFE * float(from_left + u @ folded + k * ETA)


def hidden_underflow(u: Float[np.ndarray, " k"]) -> float:
    """Of u . W_1 + b_1 at every hidden unit."""
    return SAFE * ETA * float(u.sum() + len(u) + 2)


def output_underflow(z: Float[np.ndarray, " n"]) -> float:
    """Of w_2 . z + b_2 for active units 0 <= z."""
    return SAFE * ETA * float(z.sum() + len(z) + 2)


def within_range(model: Model, tables: HeadTables, u: Float[np.ndarray, " k"]) -> bool:
    """Sums of absolute values stay below 2^126: no partial sum of the pass reaches 2^127."""
    W_Q, W_K = _sizes(model.W_Q), _sizes(model.W_K)
    _, q = token_sizes(model.encoding, W_Q)
    keys = token_sizes(model.encoding, W_K)
    direction = W_K @ q
    scores = token_sizes(model.encoding, direction[:, None])
    sizes = [W_Q, W_K, _sizes(model.W_V), q, direction, *keys, *scores, u]
    if isinstance(model, ClsScalar):
        W_C, w = _sizes(model.W_C), _sizes(model.w)
        sizes += [W_C, w, u @ W_C, W_C @ w, u @ W_C @ w]
    else:
        W_1, b_1, w_2, b_2 = (_sizes(M) for M in (model.W_1, model.b_1, model.w_2, model.b_2))
        z = u @ W_1 + b_1
        sizes += [W_1, b_1, w_2, b_2, z, w_2 @ z + b_2]
    encoded = token_sizes(model.encoding, np.ones((model.encoding.d, 1)))
    sizes += [*encoded, np.asarray(tables.T + 1.0)]
    return all(bool(np.max(part, initial=0.0) < TOP) for part in sizes)


def _image_underflow(model: Model, W: Float[np.ndarray, "d k"]) -> TokenErrors:
    """Of x_t W: weights of W, weights of the encoding (and their sum P_t + E_b), products."""
    ones = np.ones((W.shape[0], 1))
    own = 0.0 if is_sparse(model) else 3 * W.sum(0)
    found = []
    for part in token_sizes(model.encoding, ones):  # |x_t|_1
        found.append(ETA * (part + own + terms_of_a_token(model)))
    return TokenErrors(*found)


def _sizes(M: object) -> np.ndarray:
    return np.asarray(np.abs(np.asarray(M, np.float64)))
