"""The paper's block in NumPy: small, for any shapes, nothing compiled.

    f(Z) = RowSoftmax(Z W_Q (Z W_K)^T) Z W_V,      Z' = Pi(sigma(Pi(f(Z))) W_C),

Pi = projection of every row onto the unit ball. `capax.attention.PaperStack` is the same network
for training; a test compares the two. This one evaluates inequalities on arrays of many shapes, for
which JAX would compile one program per shape.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Activation = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class BlockMatrices:
    """W_Q, W_K [d, r], W_V [d, k] and W_C [k, q] of one block; r = k and q = d in the paper."""

    W_Q: Float[np.ndarray, "d r"]
    W_K: Float[np.ndarray, "d r"]
    W_V: Float[np.ndarray, "d k"]
    W_C: Float[np.ndarray, "k q"]

    @property
    def W_QK(self) -> Float[np.ndarray, "d d"]:
        """W_Q W_K^T: the score of key x for query z is z^T W_QK x."""
        return self.W_Q @ self.W_K.T


def softmax(scores: Float[np.ndarray, "*rows T"]) -> Float[np.ndarray, "*rows T"]:
    """e^score / sum of e^score along the last axis; a score of -inf gets weight 0."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def project(Z: Float[np.ndarray, "*rows d"]) -> Float[np.ndarray, "*rows d"]:
    """Pi: rows longer than 1 are shortened to length 1."""
    return Z / np.maximum(np.linalg.norm(Z, axis=-1, keepdims=True), 1.0)


def attention(Z: Float[np.ndarray, "T d"], W: BlockMatrices) -> Float[np.ndarray, "T k"]:
    """f(Z): every row is a query, and all rows are keys."""
    return softmax(Z @ W.W_QK @ Z.T) @ Z @ W.W_V


def block(
    Z: Float[np.ndarray, "T d"], W: BlockMatrices, sigma: Activation
) -> Float[np.ndarray, "T d"]:
    """Z' = Pi(sigma(Pi(f(Z))) W_C)."""
    return project(sigma(project(attention(Z, W))) @ W.W_C)


def stack(
    X: Float[np.ndarray, "T d"], blocks: tuple[BlockMatrices, ...], sigma: Activation
) -> Float[np.ndarray, "T d"]:
    """g(X; W^1, ..., W^L): the blocks one after the other."""
    for W in blocks:
        X = block(X, W, sigma)
    return X


def longest_row(M: Float[np.ndarray, "T d"]) -> float:
    """||M^T||_{2,inf}: the length of the longest row."""
    return float(np.linalg.norm(M, axis=1).max(initial=0.0))


def spectral(M: Float[np.ndarray, "a b"]) -> float:
    """||M||_2."""
    return float(np.linalg.norm(M, 2))
