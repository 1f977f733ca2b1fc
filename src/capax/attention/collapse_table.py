"""The table of the collapse and its hand-derived gradient.

Row (c, t) holds, for every head, the weighted value w y_V and the weight w of symbol c at
position t, with y[c,t] = r[c,t] (P_t + E_c) W', g = y[score column] and w = exp(g - mu):

    sums = X S,   S[c,t] = [ w y_V | w ]      (X one-hot, m x A T)

Gradient (ours). With G = X^T dsums split as [G_V | G_w], and mu a constant (it cancels in the
ratio of the sums),

    dw = sum_k G_V y_V + G_w,   dg = w dw,   dy = [ w G_V | dg ],   dz = r dy,
    dP = (sum_c dz) W'^T + sum_c kappa[c,t] C(P_t + E_c),   kappa = -(r^2/d) sum_j dy_j y_j
       = -(r^2/d) sum_h w (dw (1 + g) - G_w),

and alike for E with the sum over t; dW' = P^T (sum_c dz) + E^T (sum_t dz). Nothing of size
A T x d is kept for the way back: P W' (T rows), r and w suffice.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from capax.attention.block import LAYER_NORM_EPSILON

Precision = lax.Precision | lax.DotAlgorithmPreset


def matmul(a: Array, b: Array, axis_a: int, axis_b: int, precision: Precision) -> Array:
    """Product of two arrays over one axis of each, in float32 or better (never bare TF32)."""
    dimensions = (((axis_a,), (axis_b,)), ((), ()))
    if a.dtype == jnp.float64:
        precision = lax.Precision.HIGHEST
    return lax.dot_general(a, b, dimensions, precision=precision)


def centred(x: Float[Array, "*rows d"]) -> Float[Array, "*rows d"]:
    """C x: minus its mean along the last axis."""
    return x - jnp.mean(x, axis=-1, keepdims=True)


def inverse_deviation(x: Float[Array, "*rows d"]) -> Float[Array, "*rows"]:
    """r = (|C x|^2/d + eps)^(-1/2), the factor of LayerNorm."""
    return lax.rsqrt(jnp.mean(jnp.square(centred(x)), axis=-1) + LAYER_NORM_EPSILON)


def _is_score(columns: int) -> Bool[Array, "1 1 k_1 1"]:
    return (jnp.arange(columns) == columns - 1)[None, None, :, None]


def _tabulate(
    position: Array, embed: Array, W: Array, g_cls: Array, ln: bool, precision: Precision
):
    (T, d), A, (_, columns, H) = position.shape, embed.shape[0], W.shape
    flat = W.reshape(d, columns * H)
    PY = matmul(position, flat, 1, 0, precision).reshape(1, T, columns, H)
    EY = matmul(embed, flat, 1, 0, precision).reshape(A, 1, columns, H)
    if ln:
        r = inverse_deviation(position[None, :, :] + embed[:, None, :])  # [A, T]
    else:
        r = jnp.ones((A, T), position.dtype)
    g = r[:, :, None] * (PY[:, :, -1] + EY[:, :, -1])  # [A, T, H]
    mu = jnp.maximum(jnp.max(g, axis=(0, 1)), g_cls)
    w = jnp.exp(g - mu[None, None, :])
    y = r[:, :, None, None] * (PY + EY)  # [A, T, k+1, H]
    S = w[:, :, None, :] * jnp.where(_is_score(columns), 1.0, y)
    return S.reshape(A * T, columns * H), mu, (PY, EY, r, w)


def table(
    position: Float[Array, "T d"],
    embed: Float[Array, "A d"],
    W: Float[Array, "d k_1 H"],
    g_cls: Float[Array, "H"],
    *,
    ln: bool,
    precision: Precision,
) -> tuple[Float[Array, "AT columns"], Float[Array, "H"], Float[Array, "A T H"]]:
    """S, the shift mu of each head (the largest score, [CLS] included), and the weights w.

    position P, embed E; W = W' with the score column last; g_cls the score of [CLS]; `ln` whether
    tokens are layer-normalised.
    """
    S, mu, (_, _, _, w) = _tabulate(position, embed, W, g_cls, ln, precision)
    return S, mu, w


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def head_sums(
    position: Array,
    embed: Array,
    W: Array,
    g_cls: Array,
    design: Array,
    ln: bool,
    precision: Precision,
) -> tuple[Array, Array]:
    """(X S, mu): the sums over tokens of every example, [m, (k+1) H], without the [CLS] term.

    No gradient flows through mu, g_cls (used for mu only) and the design matrix X.
    """
    return _sums(position, embed, W, g_cls, design, ln, precision)[0]


def _sums(position, embed, W, g_cls, design, ln, precision):
    S, mu, kept = _tabulate(position, embed, W, g_cls, ln, precision)
    sums = matmul(design, S.astype(design.dtype), 1, 0, precision)
    return (sums, mu), (position, embed, W, design, *kept)


def _pull_back(ln, precision, kept, cotangents):
    position, embed, W, design, PY, EY, r, w = kept
    (T, d), A, (_, columns, H) = position.shape, embed.shape[0], W.shape
    G = matmul(design, cotangents[0], 0, 0, precision).reshape(A, T, columns, H)
    y = r[:, :, None, None] * (PY + EY)
    G_w, g = G[:, :, -1], y[:, :, -1]
    dw = G_w + sum(G[:, :, j] * y[:, :, j] for j in range(columns - 1))  # [A, T, H]
    rw = r[:, :, None] * w
    dz = rw[:, :, None, :] * jnp.where(_is_score(columns), dw[:, :, None, :], G)
    dPY = sum(dz[c] for c in range(A)).reshape(T, columns * H)
    dEY = jnp.sum(dz, axis=1).reshape(A, columns * H)
    flat = W.reshape(d, columns * H)
    dP = matmul(dPY, flat, 1, 1, precision)
    dE = matmul(dEY, flat, 1, 1, precision)
    dW = matmul(position, dPY, 0, 0, precision) + matmul(embed, dEY, 0, 0, precision)
    if ln:
        kappa = -jnp.square(r) / d * jnp.sum(w * (dw * (1.0 + g) - G_w), axis=-1)  # [A, T]
        P, E = centred(position), centred(embed)
        dP += jnp.sum(kappa, axis=0)[:, None] * P + matmul(kappa, E, 0, 0, precision)
        dE += jnp.sum(kappa, axis=1)[:, None] * E + matmul(kappa, P, 1, 0, precision)
    return dP, dE, dW.reshape(W.shape), None, None


head_sums.defvjp(_sums, _pull_back)
