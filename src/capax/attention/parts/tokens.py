"""Tokens as rows of a matrix, and rows with at most two ones that never form the matrix.

With orthonormal positions a token is E_b + P_t: two ones in a row of length d = T + 3. For
T = 10^6 the dense matrix would have 10^12 entries; everything attention needs is X @ W, which is
a sum of two rows of W per token: memory O(T).
"""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer

from capax.errors import require

Bits = Integer[Array | np.ndarray, "T"] | Bool[Array | np.ndarray, "T"]


class TwoHotTokens(eqx.Module):
    """Rows e_first + e_second of length d; an index of -1 stands for the zero vector.

    `X @ W` gives W[first] + W[second] in W's dtype, `X[t]` one row (still lazy), `X.dense()` the
    matrix. The index arrays have the shape [n] of the rows, or [] for one row.
    """

    first: Integer[Array, "*rows"]
    second: Integer[Array, "*rows"]
    d: int = eqx.field(static=True)

    def __matmul__(self, W: Float[Array, "d *columns"]) -> Float[Array, "..."]:
        require(W.shape[0] == self.d, "W", f"{self.d} rows, one per coordinate", W.shape)
        return _rows(W, self.first) + _rows(W, self.second)

    def __getitem__(self, t: object) -> "TwoHotTokens":
        return TwoHotTokens(self.first[t], self.second[t], self.d)  # type: ignore[index]

    @property
    def shape(self) -> tuple[int, ...]:
        """[n, d], or [d] for one row."""
        return (*self.first.shape, self.d)

    def dense(self, dtype: object = None) -> Float[Array, "*rows d"]:
        """The matrix itself; forms d numbers per row, so only for small d."""
        column = jnp.arange(self.d, dtype=self.first.dtype)
        ones = [
            (jnp.expand_dims(index, -1) == column.reshape((1,) * index.ndim + (self.d,)))
            for index in (self.first, self.second)
        ]
        kind = jnp.result_type(float) if dtype is None else dtype
        return ones[0].astype(kind) + ones[1].astype(kind)  # type: ignore[arg-type]


Tokens = Float[Array, "T d"] | TwoHotTokens
Token = Float[Array, "d_z"] | TwoHotTokens


@partial(jax.jit, inline=True)  # a program of its own if called alone, else part of the caller's
def _rows(W: Float[Array, "d *columns"], index: Integer[Array, "*rows"]) -> Array:
    """W[index], with zeros where the index is -1."""
    present = (index >= 0).astype(W.dtype)
    present = present.reshape(index.shape + (1,) * (W.ndim - 1))
    return W[jnp.maximum(index, 0)] * present
