"""The table of the collapse and its hand-derived gradient.

Row (c, t) of S holds, for every head, the weighted value w y_V and the weight w of symbol c at
position t, with y[c,t] = r[c,t] (P_t + E_c) W', g = y[score column] and w = exp(g - mu):

    sums = X S,   S[c,t] = [ w y_V | w ]      (X one-hot, m x A T)

Gradient (ours). With G = X^T dsums split as [G_V | G_w], and mu a constant (it cancels in the
ratio of the sums),

    dw = sum_k G_V y_V + G_w,   dg = w dw,   dy = [ w G_V | dg ],   dz = r dy,
    dP = (sum_c dz) W'^T + sum_c kappa[c,t] C(P_t + E_c),   kappa = -(r^2/d) sum_j dy_j y_j
       = -(r^2/d) sum_h w (dw (1 + g) - G_w),

and alike for E with the sum over t; dW' = P^T (sum_c dz) + E^T (sum_t dz). Nothing of size
A T x d is kept for the backward pass: P W' (T rows), r and w suffice.
"""

import functools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from capax.attention.block import LAYER_NORM_EPSILON
from capax.attention.collapsed.design import (
    Design,
    matmul,
    over_examples,
    over_positions,
    over_tokens,
)


def centred(x: Float[Array, "*rows d"]) -> Float[Array, "*rows d"]:
    """C x: minus its mean along the last axis."""
    return x - jnp.mean(x, axis=-1, keepdims=True)


def _centred_columns(x: Float[Array, "d T"]) -> Float[Array, "d T"]:
    return x - jnp.mean(x, axis=0, keepdims=True)


def inverse_deviation(x: Float[Array, "*rows d"]) -> Float[Array, "*rows"]:
    """r = (|C x|^2/d + eps)^(-1/2), the factor of LayerNorm."""
    return lax.rsqrt(jnp.mean(jnp.square(centred(x)), axis=-1) + LAYER_NORM_EPSILON)


def _tabulate(
    position: Array, embed: Array, W: Array, g_cls: Array, ln: bool
) -> tuple[Array, Array, Any]:
    """(S^T [(k+1) H, A, T], mu, residuals of the backward pass); positions on the last axis."""
    (d, T), A, (columns, H, _) = position.shape, embed.shape[0], W.shape
    flat = W.reshape(columns * H, d)
    PY = matmul(flat, position, 1, 0).reshape(columns, H, T)
    EY = matmul(flat, embed, 1, 1).reshape(columns, H, A)
    r = _deviations(position, embed) if ln else jnp.ones((A, T), position.dtype)
    y = _scaled(PY, EY, r)
    g = y[-1]  # [H, A, T]
    mu = jnp.maximum(jnp.max(g, axis=(1, 2)), g_cls)
    w = jnp.exp(g - mu[:, None, None])
    S = w[None] * jnp.where(_is_score(columns), 1.0, y)
    return S.reshape(columns * H, A, T), mu, (PY, EY, r, w)


def _deviations(position: Float[Array, "d T"], embed: Float[Array, "A d"]) -> Float[Array, "A T"]:
    """r[c,t] = (|C(E_c + P_t)|^2/d + eps)^(-1/2); centred first, so that nothing cancels."""
    P, mean = _centred_columns(position), jnp.full(len(position), 1 / len(position), position.dtype)
    squares = [jnp.square(P + E_c[:, None]) for E_c in centred(embed)]
    # a product with a constant vector: XLA's sums along the first axis are slow on a CPU
    variance = [matmul(mean, x, 0, 0) for x in squares]
    return lax.rsqrt(jnp.stack(variance) + LAYER_NORM_EPSILON)


def _scaled(PY: Array, EY: Array, r: Array) -> Float[Array, "k_1 H A T"]:
    """y[c,t] = r[c,t] (P_t + E_c) W'."""
    return r[None, None, :, :] * (PY[:, :, None, :] + EY[:, :, :, None])


def _is_score(columns: int) -> Bool[Array, "k_1 1 1 1"]:
    return (jnp.arange(columns) == columns - 1)[:, None, None, None]


def table(
    position: Float[Array, "d T"],
    embed: Float[Array, "A d"],
    W: Float[Array, "k_1 H d"],
    g_cls: Float[Array, "H"],
    *,
    ln: bool,
) -> tuple[Float[Array, "columns A T"], Float[Array, "H"], Float[Array, "H A T"]]:
    """S^T, the shift mu of each head (the largest score, [CLS] included), and the weights w.

    position P^T, embed E; W = W'^T with the score last; g_cls the score of [CLS]; `ln` whether
    tokens are layer-normalised.
    """
    S, mu, (_, _, _, w) = _tabulate(position, embed, W, g_cls, ln)
    return S, mu, w


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def head_sums(
    position: Array, embed: Array, W: Array, g_cls: Array, design: Design, ln: bool
) -> tuple[Array, Array]:
    """(X S, mu): the sums over tokens of each example, [m, (k+1) H], without the [CLS] term.

    No gradient flows through mu, g_cls (used for mu only) and the design matrix X.
    """
    return _sums(position, embed, W, g_cls, design, ln)[0]


def _sums(position, embed, W, g_cls, design, ln):
    S, mu, kept = _tabulate(position, embed, W, g_cls, ln)
    sums = over_tokens(design, S)
    return (sums, mu), (position, embed, W, design, *kept)


def _pull_back(ln, kept, cotangents):
    position, embed, W, design, PY, EY, r, w = kept
    (columns, H, d), (A, T) = W.shape, r.shape
    flat = W.reshape(columns * H, d)
    G = over_examples(cotangents[0], design).reshape(columns, *w.shape)
    dz, kappa = _through_weights(G, _scaled(PY, EY, r), w, r)
    kappa = -jnp.square(r) / d * kappa  # [A, T]
    dPY = functools.reduce(jnp.add, [dz[:, :, c] for c in range(A)]).reshape(columns * H, T)
    ones = jnp.ones(T, dz.dtype)
    dEY = matmul(dz.reshape(columns * H * A, T), ones, 1, 0).reshape(columns * H, A)
    dP = matmul(flat, dPY, 0, 0)
    dE = matmul(dEY, flat, 0, 0)
    dW = over_positions(dPY, position, design) + matmul(dEY, embed, 1, 0)
    if ln:
        P, E = _centred_columns(position), centred(embed)
        dP += jnp.sum(kappa, axis=0)[None, :] * P + matmul(E, kappa, 0, 0)
        dE += jnp.sum(kappa, axis=1)[:, None] * E + over_positions(kappa, P, design)
    return dP, dE, dW.reshape(W.shape), None, None


def _through_weights(G, y, w, r):
    """(dz, sum_h w (dw (1 + g) - G_w)); G and y are [k + 1, H, A, T]."""
    columns = G.shape[0]
    dw = G[-1] + sum(G[j] * y[j] for j in range(columns - 1))  # [H, A, T]
    moved = jnp.sum(w * (dw * (1.0 + y[-1]) - G[-1]), axis=0)
    dz = (r[None] * w)[None] * jnp.where(_is_score(columns), dw[None], G)
    return dz, moved


head_sums.defvjp(_sums, _pull_back)
