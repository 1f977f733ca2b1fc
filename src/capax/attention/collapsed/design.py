"""The matrix products of the collapse, in float32 or better, and its one-hot design matrix X.

Two products have X [m, A T] as a factor: a table summed over the tokens of each example, and a
cotangent summed over the examples that have a (symbol, position) pair. X holds 0 and 1, exact in
bfloat16; a float32 number is the exact sum of three bfloat16 pieces of 8 significant bits each.
Hence (ours) three bfloat16 products on a GPU's tensor cores give the float32 product, up to the
order of its sum, several times as fast as float32 products do. All three are computed in one
product: the pieces side by side, or stacked with three copies of X.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Array, BFloat16, Float, Integer

LONG = 4096  # at this many positions a sum over them is cut into pieces on a GPU,
_MOST_PIECES = 128  # as many as a GPU has multiprocessors
_TOP_BITS = np.uint32(0xFFFF0000)  # sign, exponent and 7 stored bits: a bfloat16 number


class InThirds(eqx.Module):
    """X for products in three bfloat16 pieces, and three stacked copies of X."""

    X: BFloat16[Array, "m AT"]
    thrice: BFloat16[Array, "m3 AT"]


Design = Float[Array, "m AT"] | InThirds


def matmul(a: Array, b: Array, axis_a: int, axis_b: int) -> Array:
    """Product of two arrays over one axis of each, in float32 or better (never TF32)."""
    dimensions = (((axis_a,), (axis_b,)), ((), ()))
    return lax.dot_general(a, b, dimensions, precision=lax.Precision.HIGHEST)


def one_hot(bits: Integer[Array, "m T"], A: int, dtype: DTypeLike) -> Float[Array, "m AT"]:
    """Column (c, t) of row i is 1 where example i has symbol c at position t."""
    m, T = bits.shape
    symbols = jnp.arange(A, dtype=bits.dtype)
    return (bits[:, None, :] == symbols[None, :, None]).astype(dtype).reshape(m, A * T)


def in_thirds(bits: Integer[Array, "m T"], A: int) -> InThirds:
    """The design matrix for products in three pieces."""
    X = one_hot(bits, A, jnp.bfloat16)
    return InThirds(X, jnp.concatenate([X, X, X], axis=0))


def over_tokens(design: Design, S: Float[Array, "columns A T"]) -> Float[Array, "m columns"]:
    """X S^T: a table summed over the tokens of each example."""
    if not isinstance(design, InThirds):
        # symbol by symbol: written as one reshape, XLA's loop over A T does not vectorise on a CPU
        return matmul(design, jnp.concatenate([S[:, c] for c in range(S.shape[1])], axis=1), 1, 1)
    flat = S.reshape(S.shape[0], -1)
    sums = _tensor_core(design.X, jnp.concatenate(_pieces(flat), axis=0), 1, 1)
    first, second, third = jnp.split(sums, 3, axis=1)
    return third + second + first  # the small ones first


def over_examples(D: Float[Array, "m columns"], design: Design) -> Float[Array, "columns AT"]:
    """D^T X: a number per example summed over the examples with each (symbol, position) pair."""
    if not isinstance(design, InThirds):
        return matmul(D, design, 0, 0)
    return _tensor_core(jnp.concatenate(_pieces(D), axis=0), design.thrice, 0, 0)


@jax.custom_vjp
def over_pairs(
    X: BFloat16[Array, "m P"], S: Float[Array, "P columns"]
) -> Float[Array, "m columns"]:
    """X S for a wide table S, on tensor cores; no gradient for X.

    The pieces of S are stacked, and X is repeated three times side by side: sums of m x columns
    are then written once.
    """
    wide = jnp.concatenate([_in_eights(X, 1)] * 3, axis=1)
    pieces = _pieces(_in_eights(_in_eights(S, 0), 1))
    return _tensor_core(wide, jnp.concatenate(pieces, axis=0), 1, 0)[:, : S.shape[1]]


def _over_pairs_back(X: Array, D: Array) -> tuple[None, Array]:
    thrice = jnp.concatenate([_in_eights(X, 1)] * 3, axis=0)
    pieces = _pieces(_in_eights(D, 1))
    G = _tensor_core(thrice, jnp.concatenate(pieces, axis=0), 0, 0)
    return None, G[: X.shape[1], : D.shape[1]]


over_pairs.defvjp(lambda X, S: (over_pairs(X, S), X), _over_pairs_back)


def _in_eights(x: Float[Array, "a b"], axis: int) -> Float[Array, "a_8 b_8"]:
    """Zeros up to a multiple of eight along an axis: tensor cores read 16 bytes at a time."""
    short = -x.shape[axis] % 8
    return jnp.pad(x, [(0, short if i == axis else 0) for i in range(2)])


def over_positions(
    a: Float[Array, "a T"], b: Float[Array, "b T"], design: Design
) -> Float[Array, "a b"]:
    """a b^T, a sum over positions.

    On a GPU one multiprocessor adds up a small result alone, and sums over 100 000 positions take
    a third of a step. Cut into pieces, the sum uses all multiprocessors; without a suitable divisor
    of T it is not cut.
    """
    T = a.shape[1]
    whole = not isinstance(design, InThirds) or T < LONG
    pieces = 1 if whole else max(n for n in range(1, _MOST_PIECES + 1) if T % n == 0)
    if pieces == 1:
        return matmul(a, b, 1, 1)
    a, b = (x.reshape(x.shape[0], pieces, T // pieces) for x in (a, b))
    dimensions = (((2,), (2,)), ((1,), (1,)))
    parts = lax.dot_general(a, b, dimensions, precision=lax.Precision.HIGHEST)
    return jnp.sum(parts, axis=0)


def _pieces(x: Float[Array, "a b"]) -> list[BFloat16[Array, "a b"]]:
    """Three bfloat16 arrays with the float32 array x as their exact sum."""
    found = []
    for _ in range(3):
        bits = lax.bitcast_convert_type(x, jnp.uint32)
        top = lax.bitcast_convert_type(bits & _TOP_BITS, jnp.float32)
        found.append(top.astype(jnp.bfloat16))
        x = x - top
    return found


def _tensor_core(a: Array, b: Array, axis_a: int, axis_b: int) -> Float[Array, "a b"]:
    dimensions = (((axis_a,), (axis_b,)), ((), ()))
    return lax.dot_general(a, b, dimensions, preferred_element_type=jnp.float32)
