"""Norms of weight matrices, with both indices spelled out, and never a d x d product.

Convention: `norm_p_q(M)` takes the p-norm of every COLUMN, then the q-norm of the column norms,

    ||M||_{p,q} = ( sum_j ||M[:, j]||_p^q )^{1/q},

so that ||X^T||_{2,inf} = max_t ||x_t|| for token rows x_t, ||W||_{2,1} is the sum of column lengths
and ||W^T||_{2,1} the sum of row lengths. A product of two thin factors A B^T (W_QK = W_Q W_K^T,
W_VO = W_V W_O) has the norms of the k x k core R_A R_B^T, where R_A^T R_A = A^T A as in the QR
decomposition A = Q_A R_A: the orthonormal columns of Q_A change none of the norms used here but
||.||_{1,1}.

A certificate needs upper bounds, so `upper` adds a relative 1e-9 to the measured value.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg.lapack import dpotrf  # pyrefly: ignore[missing-module-attribute]
from scipy.sparse.linalg import eigsh

from capax.errors import InputError, require, shown

Matrix = Float[np.ndarray, "rows cols"]
ROUNDING = 1e-9
# Below this many rows or columns a full decomposition is cheap.
SMALL = 100
# Up to this many entries a product of two factors is formed to add up its absolute entries.
ENTRIES = 1 << 16


def finite_matrix(value: Any, name: str = "matrix") -> Matrix:
    """`value` as a float64 matrix; raises InputError for wrong shapes, NaN and infinities."""
    return _finite(value, name, 2, "a matrix (two axes)")


def finite_vector(value: Any, name: str = "vector") -> Float[np.ndarray, "n"]:
    """`value` as a float64 vector; raises InputError for wrong shapes, NaN and infinities."""
    return _finite(value, name, 1, "a vector (one axis)")


def _finite(value: Any, name: str, ndim: int, wanted: str) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: wanted {wanted} of numbers, got {shown(value)}") from error
    require(array.ndim == ndim, name, wanted, f"shape {array.shape}")
    require(array.size > 0, name, "at least one entry", f"shape {array.shape}")
    if not math.isfinite(float(array.sum())):  # one pass; the count only when it is needed
        bad = int(np.size(array) - np.isfinite(array).sum())
        require(bad == 0, name, "finite entries", f"{bad} NaN or infinite")
    return array


def norm_p_q(M: Any, p: float, q: float, name: str = "matrix") -> float:
    """||M||_{p,q}: the p-norm of every column, then the q-norm of those; p, q >= 1 or inf."""
    require(p >= 1 and q >= 1, "p, q", "numbers >= 1", (p, q))
    columns = np.linalg.norm(finite_matrix(M, name), ord=p, axis=0)
    return float(np.linalg.norm(columns, ord=q))


def norm_2_1(M: Any, name: str = "matrix") -> float:
    """||M||_{2,1} = sum of the lengths of the columns."""
    return norm_p_q(M, 2.0, 1.0, name)


def norm_2_inf(M: Any, name: str = "matrix") -> float:
    """||M||_{2,inf} = length of the longest column."""
    return norm_p_q(M, 2.0, math.inf, name)


def norm_1_1(M: Any, name: str = "matrix") -> float:
    """||M||_{1,1} = sum of the absolute entries."""
    return norm_p_q(M, 1.0, 1.0, name)


def norm_frobenius(M: Any, name: str = "matrix") -> float:
    """||M||_F = square root of the sum of squares."""
    return float(np.linalg.norm(finite_matrix(M, name)))


def norm_spectral(M: Any, name: str = "matrix") -> float:
    """||M||_2 = largest singular value, by a full decomposition (power iteration gives less)."""
    return float(np.linalg.norm(finite_matrix(M, name), ord=2))


def norm_2(v: Any, name: str = "vector") -> float:
    """||v||_2."""
    return float(np.linalg.norm(finite_vector(v, name)))


def upper(value: float, scale: float = 0.0) -> float:
    """An upper bound on a measured norm, with rounding: value (1 + 1e-9) + 1e-13 scale.

    `scale` is the product of the factors' sizes if the norm belongs to a product (the rounding
    error of a product is relative to its factors, not to a result that may cancel).
    """
    return value * (1.0 + ROUNDING) + 1e-13 * scale


@dataclass(frozen=True)
class MatrixNorms:
    """Upper bounds on the norms of one matrix, whole or given by its factors.

    norm_2 spectral, norm_F Frobenius, norm_2_1 column lengths, norm_2_1_T row lengths, norm_1_1
    absolute entries (inf: not known). rank: the width of its factors (None: full rank).
    """

    norm_2: float
    norm_F: float
    norm_2_1: float
    norm_2_1_T: float
    norm_1_1: float = math.inf
    rank: int | None = None

    @classmethod
    def known(
        cls,
        norm_F: float | None = None,
        norm_2: float | None = None,
        norm_2_1: float | None = None,
        columns: int | None = None,
    ) -> "MatrixNorms":
        """Unknown norms from known ones by ||W||_2 <= ||W||_F <= ||W||_{2,1} <= sqrt(cols) ||W||_F.

        Raises InputError unless ||W||_F or ||W||_{2,1} is given.
        """
        require(norm_F or norm_2_1, "norms", "a Frobenius or a (2,1) norm > 0", (norm_F, norm_2_1))
        frobenius = norm_F or norm_2_1 or 0.0
        known_21 = norm_2_1 is not None or columns is not None
        require(known_21, "norm_2_1", "the (2,1) norm or the number of columns", None)
        columns_sum = norm_2_1 or math.sqrt(columns or 1) * frobenius
        return cls(norm_2 or frobenius, frobenius, columns_sum, math.inf)

    def to_json(self) -> dict[str, float]:
        """The norms by name."""
        return {name: value for name, value in asdict(self).items() if name != "rank"}


def _triangle(A: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "r k"]:
    """R with R^T R >= A^T A, so that ||R x|| >= ||A x|| for all x: equal up to rounding.

    Of a short A by QR. Of a tall one by Cholesky, ten times faster, of its Gram matrix plus a shift
    that exceeds the rounding errors of both (d eps tr and k eps tr), so the inequality is safe.
    """
    d, k = A.shape
    if d <= SMALL:
        return np.asarray(np.linalg.qr(A, mode="r"))
    G = A.T @ A
    if not G.any():
        return G
    G[np.diag_indices(k)] += 2 * (d + k) * np.finfo(np.float64).eps * np.trace(G)
    return np.linalg.cholesky(G).T


def product_norms(A: Any, B: Any, name: str = "A B^T") -> MatrixNorms:
    """Norms of A B^T from A [d, k] and B [n, k], in O((d + n) k^2): no large product is formed.

    Only the sum of absolute entries needs the product itself: it is known up to ENTRIES entries.
    """
    left, right = finite_matrix(A, f"{name} left"), finite_matrix(B, f"{name} right")
    same = left.shape[1] == right.shape[1]
    require(same, name, "factors with the same number of columns", (left.shape, right.shape))
    R_A, R_B = (_triangle(factor) for factor in (left, right))
    core = R_A @ R_B.T
    size = float(np.linalg.norm(R_A) * np.linalg.norm(R_B))
    rows = np.linalg.norm(left @ R_B.T, axis=1)
    columns = np.linalg.norm(right @ R_A.T, axis=1)
    return MatrixNorms(
        norm_2=upper(float(np.linalg.norm(core, 2)), size),
        norm_F=upper(float(np.linalg.norm(core)), size),
        norm_2_1=upper(float(columns.sum()), size),
        norm_2_1_T=upper(float(rows.sum()), size),
        norm_1_1=_entries(left, right, size),
        rank=min(left.shape[1], *left.shape, *right.shape),
    )


def _entries(left: Float[np.ndarray, "d k"], right: Float[np.ndarray, "n k"], size: float) -> float:
    """||A B^T||_{1,1}, the rounding error of n products relative to the factors; inf if large."""
    n = len(left) * len(right)
    if n > ENTRIES:
        return math.inf
    return upper(float(np.abs(left @ right.T).sum()), math.sqrt(n) * size)


def spectral_upper(W: Any, name: str = "W") -> float:
    """An upper bound on ||W||_2 within a relative 1e-3, usually 1e-6, without a full SVD.

    Lanczos estimates the top eigenvalue theta of the Gram matrix G from below; a Cholesky
    factorisation of (1 + tol) theta I - G then proves that G <= (1 + tol) theta I.
    """
    matrix = finite_matrix(W, name)
    if min(matrix.shape) <= SMALL:
        return upper(norm_spectral(matrix), float(np.linalg.norm(matrix)))
    G = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    start = np.ones(len(G))
    top = eigsh(G, k=1, v0=start, tol=1e-5, return_eigenvectors=False, maxiter=10 * len(G))
    theta = float(top[0])
    for tolerance in (1e-6, 1e-4, 1e-3):
        shifted = -G
        shifted[np.diag_indices_from(shifted)] += theta * (1 + tolerance)
        if dpotrf(shifted.T, lower=True, clean=False, overwrite_a=True)[1] == 0:
            return upper(math.sqrt(theta * (1 + tolerance)))
    return upper(norm_spectral(matrix), float(np.linalg.norm(matrix)))


def matrix_norms(W: Any, name: str = "W") -> MatrixNorms:
    """The same upper bounds for a matrix that is given whole."""
    matrix = finite_matrix(W, name)
    squares = matrix * matrix
    rows, columns = squares.sum(axis=1), squares.sum(axis=0)
    return MatrixNorms(
        norm_2=spectral_upper(matrix, name),
        norm_F=upper(math.sqrt(float(rows.sum()))),
        norm_2_1=upper(float(np.sqrt(columns).sum())),
        norm_2_1_T=upper(float(np.sqrt(rows).sum())),
        norm_1_1=upper(float(np.abs(matrix).sum())),
    )


def norms_QK(W_Q: Any, W_K: Any, scale: float = 1.0) -> MatrixNorms:
    """Norms of W_QK = scale W_Q W_K^T (scale: 1 in the paper, 1/sqrt(k) in most code).

    Only the product is reported: W_Q and W_K alone change under a change of the head's basis.
    """
    return product_norms(finite_matrix(W_Q, "W_Q") * scale, W_K, "W_QK")


def norms_VO(W_V: Any, W_O: Any) -> MatrixNorms:
    """Norms of W_VO = W_V W_O from W_V [d, k] and W_O [k, d_out]."""
    return product_norms(W_V, finite_matrix(W_O, "W_O").T, "W_VO")


def radius(X: Any, name: str = "X") -> float:
    """B_X = ||X^T||_{2,inf}: the longest row (token) of X."""
    return norm_2_inf(finite_matrix(X, name).T, name)


def spread(X: Any, name: str = "X") -> float:
    """An upper bound on r_X, the Chebyshev radius of the rows of X: the smaller of two centres.

    r_X = min_{x_0} max_t ||x_t - x_0||; any centre gives an upper bound, here 0, the mean and the
    middle of the bounding box.
    """
    rows = finite_matrix(X, name)
    centres = (
        np.zeros(rows.shape[1]),
        rows.mean(axis=0),
        (rows.max(axis=0) + rows.min(axis=0)) / 2,
    )
    return min(float(np.linalg.norm(rows - c, axis=1).max()) for c in centres)
