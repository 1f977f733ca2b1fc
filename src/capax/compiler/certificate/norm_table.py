"""Every norm of every matrix: in closed form from a construction, and measured from the weights.

The vectors P_i, E_b, v are orthonormal, so a matrix has the norms of its few coefficients, for
every T: ||W_QK||_F = ||W_QK||_2 = ||kappa||_2 and ||W_QK||_{2,1} = ||kappa||_1. Codes are not
orthonormal: their matrices (of width d << T) are measured. Vectors count as matrices with one
column.
"""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from capax.attention import IncoherentCodes, TrainablePositions
from capax.boolean import SparseFunction
from capax.compiler.construction.assemble import (
    Model,
    head_coefficients,
    matrices,
    readout_matrices,
    slot_of_positions,
)
from capax.compiler.construction.families import Construction
from capax.compiler.parts.readouts import ScalarReadout

Norms = dict[str, float]
HEAD = ("W_Q", "W_K", "W_QK", "W_V")


def norms_of(M: Any) -> Norms:
    """Frobenius, spectral and (2,1) norm (sum of column lengths) of a matrix, vector or number."""
    matrix = np.asarray(M, dtype=np.float64)
    if matrix.size == 0:
        return {"frobenius": 0.0, "spectral": 0.0, "norm_2_1": 0.0}
    matrix, exponent = _scaled(matrix.reshape(len(matrix) if matrix.ndim else 1, -1))
    small = (
        np.asarray(np.linalg.qr(matrix, mode="r")) if matrix.shape[0] > matrix.shape[1] else matrix
    )
    norms = {
        "frobenius": float(np.linalg.norm(np.linalg.norm(matrix, axis=0))),
        "spectral": float(np.linalg.norm(small, ord=2)),
        "norm_2_1": float(np.linalg.norm(matrix, axis=0).sum()),
    }
    return _unscaled(norms, exponent)


def _scaled(M: np.ndarray) -> tuple[np.ndarray, int]:
    """M / 2^e with entries of at most 1, and e, so that squares neither overflow nor underflow."""
    exponent = int(np.frexp(np.abs(M).max(initial=0.0))[1])
    return np.ldexp(M, -exponent), exponent


def _unscaled(norms: Norms, exponent: int) -> Norms:
    with np.errstate(over="ignore"):
        return {name: float(np.ldexp(value, exponent)) for name, value in norms.items()}


def norms_of_product(A: Float[np.ndarray, "d r"], B: Float[np.ndarray, "n r"]) -> Norms:
    """The same for A B^T, which is never formed."""
    (A, e_A), (B, e_B) = _scaled(A), _scaled(B)
    R_A, R_B = (np.asarray(np.linalg.qr(factor, mode="r")) for factor in (A, B))
    core = R_A @ R_B.T
    norms = {
        "frobenius": float(np.linalg.norm(core)),
        "spectral": float(np.linalg.norm(core, ord=2)),
        "norm_2_1": float(np.linalg.norm(B @ R_A.T, axis=1).sum()),
    }
    return _unscaled(norms, e_A + e_B)


def closed_form_norms(construction: Construction) -> dict[str, Norms]:
    """Norms of every weight matrix, from O(s) coefficients; codes are measured."""
    if construction.basis is not None:
        parts = matrices(construction)
        named = {**parts, "codes": construction.basis.codes}
    else:
        query, key, value = (rows.stacked() for rows in head_coefficients(construction))
        head = {"W_Q": query, "W_K": key, "W_V": value}
        parts = {**head, **readout_matrices(construction.readout)}
        named = parts
    table = {name: norms_of(M) for name, M in named.items()}
    table["W_QK"] = norms_of_product(parts["W_Q"], parts["W_K"])
    if construction.selection.encoding == "trainable":
        table |= _trainable_norms(construction)
    return _ordered(table)


def measured_norms(model: Model) -> dict[str, Norms]:
    """Norms of every array of a model, from the arrays alone."""
    skipped = ("encoding", "activation", "norm", "scale")
    names = [name for name in model.__dataclass_fields__ if name not in skipped]
    table = {name: norms_of(getattr(model, name)) for name in names}
    W_Q, W_K = np.asarray(model.W_Q, np.float64), np.asarray(model.W_K, np.float64)
    table["W_QK"] = norms_of_product(W_Q, W_K)
    code = model.encoding
    if isinstance(code, TrainablePositions):
        table |= {name: norms_of(getattr(code, name)) for name in ("P", "E", "v_CLS")}
    if isinstance(code, IncoherentCodes):
        table["codes"] = norms_of(code.codes)
    return _ordered(table)


def norm_error(model: Model) -> float:
    """Relative error of a measured norm, at most.

    Columns are summed one by one, then their norms; rows of zeros add exactly nothing. QR and SVD
    are backward stable and get the same tolerance.
    """
    arrays = [model.W_Q, model.W_K, model.W_V, *jax.tree.leaves(model.encoding)]
    sizes = [_nonzero_rows(np.atleast_2d(np.asarray(M))) + np.shape(M)[-1] for M in arrays]
    return 1e-13 + 4 * max(sizes) * 2.0**-53


def _nonzero_rows(M: np.ndarray) -> int:
    used = np.zeros(len(M), dtype=bool)
    for j in range(M.shape[1]):
        used |= M[:, j] != 0
    return int(used.sum())


def paper_bounds(construction: Construction, norms: dict[str, Norms]) -> dict[str, dict[str, Any]]:
    """`paper_bounds_of` the function that was compiled."""
    scalar = isinstance(construction.readout, ScalarReadout)
    general = construction.family == "general"
    return paper_bounds_of(construction.function, norms, scalar=scalar, general=general)


def paper_bounds_of(
    f: SparseFunction, norms: dict[str, Norms], *, scalar: bool, general: bool
) -> dict[str, dict[str, Any]]:
    """Proposition 5.1's order for each Frobenius norm, its value, and our ratio to it.

    ||W_Q|| <= O(log(T s)), ||W_K||, ||W_V||, ||W_C|| <= O(s); MLP: O(poly(s)), general O(2^s
    poly(s)). The values for the MLP are ours: 1/gamma <= 4(s+1) where half of the margin of
    temperature zero is kept, so ||W_1||_F <= 4(s+1) sqrt(2 u (1+s+s^2)) with u = s steps or 2^s
    patterns, and ||w_2|| <= sqrt(2u) times the largest jump.
    """
    assert f.T is not None
    s, T = max(f.s, 1), f.T
    orders: dict[str, tuple[str, float]] = {"W_Q": ("O(log(T s))", math.log(max(T * s, 2)))}
    orders |= {name: ("O(s)", float(s)) for name in ("W_K", "W_V", "W_C")}
    if not scalar:
        M = f.alphabet
        u, order = (float(M) ** s, f"O({M}^s poly(s))") if general else (float(s), "O(poly(s))")
        jump = float(f.table.max() - f.table.min())
        orders["W_1"] = (order, 4 * (s + 1) * math.sqrt(2 * u * (1 + s + s * s)))
        orders["w_2"] = (order, math.sqrt(2 * u) * jump)
    return {
        name: {"order": order, "value": value, "ratio": norms[name]["frobenius"] / value}
        for name, (order, value) in orders.items()
        if name in norms and value > 0
    }


def _trainable_norms(construction: Construction) -> dict[str, Norms]:
    """P has a unit row at each relevant position; E has one per symbol, v_CLS one."""
    counts = np.bincount(slot_of_positions(construction), minlength=1).astype(np.float64)
    root = np.sqrt(counts)
    P = {
        "frobenius": math.sqrt(counts.sum()),
        "spectral": float(root.max()),
        "norm_2_1": float(root.sum()),
    }
    E = np.eye(len(construction.selection.classes))
    return {"P": P, "E": norms_of(E), "v_CLS": norms_of(np.ones(1))}


def _ordered(table: dict[str, Norms]) -> dict[str, Norms]:
    """W_Q, W_K, W_QK, W_V first, then the read-out, then the encoding."""
    return {name: table[name] for name in (*HEAD, *(n for n in table if n not in HEAD))}
