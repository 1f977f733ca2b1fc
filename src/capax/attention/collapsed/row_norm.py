"""LayerNorm of m rows with its hand-derived gradient, all sums as products with a vector of ones.

With u = r C x (r and C as in `one_layer`), y = gain o u + bias and du = gain o dy,

    dx = r (du - mean(du) - u mean(u o du)),   dgain = sum_i u_i o dy_i,   dbias = sum_i dy_i.

On a CPU, XLA's own sums along the rows of a small matrix take longer than these products.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from capax.attention.block import LAYER_NORM_EPSILON, LayerNorm
from capax.attention.collapsed.design import matmul


def normalised_rows(ln: LayerNorm | None, x: Float[Array, "m d"]) -> Float[Array, "m d"]:
    """LN of every row, or x in a model without LayerNorm."""
    return x if ln is None else _layer_norm(x, ln.gain, ln.bias)


def _row_means(x: Float[Array, "m d"]) -> Float[Array, "m 1"]:
    d = x.shape[1]
    return matmul(x, jnp.full(d, 1 / d, x.dtype), 1, 0)[:, None]


def _column_sums(x: Float[Array, "m d"]) -> Float[Array, "d"]:
    return matmul(jnp.ones(len(x), x.dtype), x, 0, 0)


@jax.custom_vjp
def _layer_norm(x: Array, gain: Array, bias: Array) -> Float[Array, "m d"]:
    return _forward(x, gain, bias)[0]


def _forward(x, gain, bias):
    centred = x - _row_means(x)
    r = lax.rsqrt(_row_means(jnp.square(centred)) + LAYER_NORM_EPSILON)
    u = centred * r
    return u * gain[None, :] + bias[None, :], (u, r, gain)


def _pull_back(kept, dy):
    u, r, gain = kept
    du = dy * gain[None, :]
    dx = r * (du - _row_means(du) - u * _row_means(u * du))
    return dx, _column_sums(u * dy), _column_sums(dy)


_layer_norm.defvjp(_forward, _pull_back)
