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

import functools
from functools import partial
from typing import Any

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


def _symbol_columns(design: Array, A: int) -> list[Array]:
    """X_c [m, T] of every symbol c."""
    T = design.shape[1] // A
    return [design[:, c * T : (c + 1) * T] for c in range(A)]


def _tabulate(
    position: Array, embed: Array, W: Array, g_cls: Array, ln: bool, precision: Precision
) -> tuple[list[Array], Array, Any]:
    """(S_c^T of every symbol, mu, what the way back needs); positions run along the last axis."""
    (T, d), A, (_, columns, H) = position.shape, embed.shape[0], W.shape
    flat = W.reshape(d, columns * H)
    PY = matmul(flat, position, 0, 1, precision)  # [(k+1) H, T]
    EY = matmul(flat, embed, 0, 1, precision)  # [(k+1) H, A]
    if ln:
        r = inverse_deviation(position[None, :, :] + embed[:, None, :])  # [A, T]
    else:
        r = jnp.ones((A, T), position.dtype)
    y = [r[c][None, :] * (PY + EY[:, c : c + 1]) for c in range(A)]  # [(k+1) H, T]
    g = [y_c[-H:] for y_c in y]
    mu = jnp.max(functools.reduce(jnp.maximum, g), axis=1)
    mu = jnp.maximum(mu, g_cls)
    w = [jnp.exp(g_c - mu[:, None]) for g_c in g]  # [H, T]
    S = [_weighted(w_c, y_c) for w_c, y_c in zip(w, y, strict=True)]
    return S, mu, (PY, EY, r, w)


def _weighted(w: Float[Array, "H T"], y: Float[Array, "rows T"]) -> Float[Array, "rows T"]:
    """[ w y_V | w ] for rows ordered (k + 1, H)."""
    H, T = w.shape
    columns = y.shape[0] // H
    y = jnp.where(_is_score(columns), 1.0, y.reshape(columns, H, T))
    return (w[None, :, :] * y).reshape(columns * H, T)


def _is_score(columns: int) -> Bool[Array, "k_1 1 1"]:
    return (jnp.arange(columns) == columns - 1)[:, None, None]


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
    rows = jnp.concatenate([S_c.T for S_c in S])
    return rows, mu, jnp.stack([w_c.T for w_c in w])


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
    """((X S)^T, mu): the sums over tokens of each example, [(k+1) H, m], without the [CLS] term.

    No gradient flows through mu, g_cls (used for mu only) and the design matrix X.
    """
    return _sums(position, embed, W, g_cls, design, ln, precision)[0]


def _sums(position, embed, W, g_cls, design, ln, precision):
    S, mu, kept = _tabulate(position, embed, W, g_cls, ln, precision)
    X = _symbol_columns(design, embed.shape[0])
    products = (matmul(S_c, X_c, 1, 1, precision) for S_c, X_c in zip(S, X, strict=True))
    sums = functools.reduce(jnp.add, products)
    return (sums, mu), (position, embed, W, design, *kept)


def _pull_back(ln, precision, kept, cotangents):
    position, embed, W, design, PY, EY, r, w = kept
    d, A = position.shape[1], embed.shape[0]
    dsums, flat = cotangents[0], W.reshape(d, -1)
    dPY, dEY, kappa = jnp.zeros_like(PY), [], []
    for c, X_c in enumerate(_symbol_columns(design, A)):
        G = matmul(dsums, X_c, 1, 0, precision)  # [(k+1) H, T]
        y = r[c][None, :] * (PY + EY[:, c : c + 1])
        dz, moved = _through_weights(G, y, w[c], r[c])
        dPY += dz
        dEY.append(matmul(dz, jnp.ones(dz.shape[1], dz.dtype), 1, 0, precision))
        kappa.append(-jnp.square(r[c]) / d * moved)
    dEY = jnp.stack(dEY)  # [A, (k+1) H]
    dP = matmul(dPY, flat, 0, 1, precision)
    dE = matmul(dEY, flat, 1, 1, precision)
    dW = (matmul(dPY, position, 1, 0, precision) + matmul(dEY, embed, 0, 0, precision)).T
    if ln:
        P, E, kappa = centred(position), centred(embed), jnp.stack(kappa)  # kappa [A, T]
        dP += jnp.sum(kappa, axis=0)[:, None] * P + matmul(kappa, E, 0, 0, precision)
        dE += jnp.sum(kappa, axis=1)[:, None] * E + matmul(kappa, P, 1, 0, precision)
    return dP, dE, dW.reshape(W.shape), None, None


def _through_weights(G, y, w, r):
    """(dz, sum_h w (dw (1 + g) - G_w)) of one symbol; rows ordered (k + 1, H)."""
    H, T = w.shape
    columns = G.shape[0] // H
    G, y = G.reshape(columns, H, T), y.reshape(columns, H, T)
    dw = G[-1] + sum(G[j] * y[j] for j in range(columns - 1))  # [H, T]
    moved = jnp.sum(w * (dw * (1.0 + y[-1]) - G[-1]), axis=0)
    dz = (r[None, :] * w)[None, :, :] * jnp.where(_is_score(columns), dw[None, :, :], G)
    return dz.reshape(columns * H, T), moved


head_sums.defvjp(_sums, _pull_back)
