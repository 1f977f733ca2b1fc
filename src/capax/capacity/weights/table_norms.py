"""Norms of a trained one-layer head as a table, for every parametrisation.

With a fixed [CLS] query a score depends on (position t, symbol c) only: g[t, c], and g_* for
[CLS]. LayerNorm makes g non-additive, so use the features (e_t, e_c, e_{t,c}) of length sqrt(3)
and, for [CLS], its own unit vector. The smallest weights that reproduce the table,

    min ||pi||^2 + ||psi||^2 + ||xi||^2 + chi^2
    subject to  pi_t + psi_c + xi_{t,c} = g[t, c] + const,   chi = g_* + const,

give a rigorous score norm (a shift-invariant Norm ignores the constant; for any other it is 0);
values have no free constant. For given psi and const the best pi_t is the sum of the residual row
r_t = g_t + const - psi divided by A + 1, and the cost of the row is r_t^T (I - 11^T/(A+1)) r_t:
only A + 1 unknowns remain.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.capacity.linear.norms import MatrixNorms, matrix_norms, upper
from capax.errors import require

FEATURE_NORM = math.sqrt(3.0)
Table = Float[np.ndarray, "T A"]
ValueTable = Float[np.ndarray, "T A k"]


def score_table_norm(g: Table, g_cls: float, shift_invariant: bool = True) -> float:
    """An upper bound on the smallest weight norm that produces the scores g[t, c] and g_*.

    shift_invariant: Norm ignores a constant added to all scores, so it is chosen best; else 0.
    """
    _check(g, g_cls)
    T, A = g.shape
    M = np.eye(A) - 1.0 / (A + 1)
    one = np.ones(A)
    # unknowns (psi, const); the gradient of sum_t r_t^T M r_t + |psi|^2 + (g_* + const)^2 is zero
    system = np.zeros((A + 1, A + 1))
    system[:A, :A] = T * M + np.eye(A)
    system[:A, A] = system[A, :A] = -T * (M @ one)
    system[A, A] = T * (one @ M @ one) + 1.0
    total = g.sum(axis=0)
    right = np.concatenate([M @ total, [-(one @ M @ total) - g_cls]])
    if shift_invariant:
        solution = np.linalg.solve(system, right)
        psi, const = solution[:A], float(solution[A])
    else:
        psi, const = np.linalg.solve(system[:A, :A], right[:A]), 0.0
    rest = g + const - psi
    value = np.einsum("ta,ab,tb->", rest, M, rest) + psi @ psi + (g_cls + const) ** 2
    return upper(math.sqrt(max(float(value), 0.0)), float(np.abs(g).max() + abs(g_cls)))


def value_weights(v: ValueTable, v_cls: Float[np.ndarray, "k"]) -> Float[np.ndarray, "features k"]:
    """The smallest feature weights that produce the values v[t, c, :] and v_*; one row a feature.

    Rows: pi (T), psi (A), xi (T A), chi (1).
    """
    T, A, k = v.shape
    M = np.eye(A) - 1.0 / (A + 1)
    psi = np.linalg.solve(T * M + np.eye(A), M @ v.sum(axis=0))  # [A, k]
    rest = v - psi
    pi = rest.sum(axis=1) / (A + 1)  # [T, k]
    xi = (rest - pi[:, None, :]).reshape(T * A, k)
    return np.concatenate([pi, psi, xi, v_cls[None, :]])


def value_table_norms(v: ValueTable, v_cls: Float[np.ndarray, "k"]) -> MatrixNorms:
    """Norms of the value matrix on the same features: columns are the k outputs."""
    _check(v, float(np.abs(v_cls).sum()))
    return matrix_norms(value_weights(v, v_cls), "values")


@dataclass(frozen=True)
class TableReach:
    """How far the values of a head lie from one centre, over all possible tokens."""

    centre: Float[np.ndarray, "k"]
    radius: float


def value_reach(
    v: ValueTable, v_cls: Float[np.ndarray, "k"], stochastic: bool = True
) -> TableReach:
    """B_phi = max over tokens of ||v - c||, c the middle of the bounding box or the mean.

    stochastic: the weights sum to one, so a centre may be subtracted; else c = 0.
    """
    tokens = np.concatenate([v.reshape(-1, v.shape[2]), v_cls[None, :]])
    middle = (tokens.max(axis=0) + tokens.min(axis=0)) / 2
    centres = (middle, tokens.mean(axis=0)) if stochastic else (np.zeros_like(middle),)
    options = [
        TableReach(c, upper(float(np.linalg.norm(tokens - c, axis=1).max()))) for c in centres
    ]
    return min(options, key=lambda option: option.radius)


def _check(table: np.ndarray, cls: float) -> None:
    finite = bool(np.isfinite(table).all()) and math.isfinite(cls)
    require(finite, "table", "finite entries", "NaN or infinite entries")
    require(table.size > 0, "table", "at least one token", table.shape)
