"""Norms of W_QK = scale W_Q W_K^T and W_VO = W_V W_O from k x k Gram matrices.

With A = W_Q^T W_Q and B = W_K^T W_K,  ||W_Q W_K^T||_F^2 = tr(A B)  and  ||W_Q W_K^T||_2^2 is the
largest eigenvalue of A B, which is that of the symmetric S B S^T for any S with S^T S = A. No d x d
product is formed. Sums of squares are accurate enough for a largest eigenvalue or a trace.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.audit.heads.folding import Factors

Square = Float[np.ndarray, "k k"]


@dataclass(frozen=True)
class Grams:
    """Gram matrices of the four factors of a head, [k, k] each."""

    Q: Square
    K: Square
    V: Square
    O: Square


def grams(part: Factors, keys: Float[np.ndarray, "r k"]) -> Grams:
    """Gram matrices; `keys` are the rows of K that change the softmax."""
    return Grams(part.Q.T @ part.Q, keys.T @ keys, part.V.T @ part.V, part.O @ part.O.T)


def frobenius(A: Square, B: Square) -> float:
    """sqrt(tr(A B)) = Frobenius norm of the product whose factors have Gram matrices A and B."""
    return math.sqrt(max(0.0, float((A * B).sum())))


def spectral(A: Square, B: Square) -> float:
    """sqrt(lambda_max(A B)) = spectral norm of the same product."""
    S = _root(A)
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(S @ B @ S.T)[-1])))


def _root(A: Square) -> Square:
    """S with S^T S = A. Cholesky takes a twentieth of the time of eigenvectors and leaves an error
    of at most gamma_{k + 1} tr(S^T S) (Higham, Theorem 10.3); eigenvectors where A is singular.
    """
    try:
        return np.linalg.cholesky(A).T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(A)
        return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


def largest(A: Square) -> float:
    """Spectral norm of the factor whose Gram matrix is A."""
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(A)[-1])))


def norm_2_1_of_product(C: Square, O: Float[np.ndarray, "k d"]) -> float:
    """||W_V W_O||_{2,1}, the sum of column lengths: column j has length sqrt(o_j^T C o_j)."""
    return float(np.sqrt(np.maximum(0.0, (O * (C @ O)).sum(axis=0))).sum())


def norm_2_1(W: Float[np.ndarray, "rows cols"]) -> float:
    """||W||_{2,1}: the sum of the lengths of the columns."""
    return float(np.sqrt((W * W).sum(axis=0)).sum())
