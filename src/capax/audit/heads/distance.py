"""Rotary positions: the size of the score matrix W_Q R_D^T W_K^T as a function of the distance D.

||W_Q R_D^T W_K^T||_F^2 = tr(R_D A R_D^T B) with the Gram matrices A, B of the two factors. In the
complex coordinates z of the planes a symmetric A acts as z -> P z + Q conj(z), R_D multiplies plane
a by e^{i D theta_a}, and the real trace of a composition is twice the real part of its linear part:

    f(D) = 2 Re sum_ab [ e^{iD(theta_a - theta_b)} P^A_ab P^B_ba
                       + e^{iD(theta_a + theta_b)} Q^A_ab conj(Q^B_ba) ].

As a quadratic form in (cos, sin) this is one product of a [D, k] by a [k, k] matrix for all D.
Coordinates that do not turn are planes of frequency 0.
"""

import numpy as np
from jaxtyping import Complex, Float

from capax.audit.heads.attend import plane_coordinates
from capax.audit.layouts.attention import Rotary

FURTHEST = 8192
Square = Float[np.ndarray, "k k"]


def distance_norms(A: Square, B: Square, rotary: Rotary, distances: int) -> Float[np.ndarray, "D"]:
    """||W_Q R_D^T W_K^T||_F for D = 0, ..., distances - 1 (relative accuracy 1e-5)."""
    if len(A) % 2:  # one coordinate without a partner gets one that is always 0
        A, B = (np.pad(gram, (0, 1)) for gram in (A, B))
    first, second, theta = _planes(rotary, len(A))
    P_A, Q_A = _complex_parts(A, first, second)
    P_B, Q_B = _complex_parts(B, first, second)
    size = max(float((A * B).sum()), 1e-300)
    form = _real_form(P_A * P_B.T / size, Q_A * Q_B.T.conj() / size).astype(np.float32)
    waves = _waves(tuple(theta), distances)
    f = np.einsum("Dp,Dp->D", waves @ form, waves)
    return np.sqrt(np.maximum(0.0, 2 * size * f.astype(np.float64)))


def _planes(rotary: Rotary, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second = plane_coordinates(rotary)
    rest = np.arange(2 * len(first), k)
    half = len(rest) // 2
    theta = np.concatenate([rotary.frequencies, np.zeros(half)])
    return np.append(first, rest[:half]), np.append(second, rest[half : 2 * half]), theta


def _complex_parts(
    A: Square, first: np.ndarray, second: np.ndarray
) -> tuple[Complex[np.ndarray, "p p"], Complex[np.ndarray, "p p"]]:
    aa, ab = A[np.ix_(first, first)], A[np.ix_(first, second)]
    ba, bb = A[np.ix_(second, first)], A[np.ix_(second, second)]
    return 0.5 * ((aa + bb) + 1j * (ba - ab)), 0.5 * ((aa - bb) + 1j * (ba + ab))


def _real_form(
    M: Complex[np.ndarray, "p p"], N: Complex[np.ndarray, "p p"]
) -> Float[np.ndarray, "q q"]:
    """Re sum_ab [M_ab e_a conj(e_b) + N_ab e_a e_b] as a form in (cos, sin), e = cos + i sin."""
    return np.block([[M.real + N.real, M.imag - N.imag], [-M.imag - N.imag, M.real - N.real]])


_WAVES: dict[tuple[tuple[float, ...], int], np.ndarray] = {}


def _waves(theta: tuple[float, ...], distances: int) -> np.ndarray:
    """cos and sin of D theta, kept for the last set of frequencies: all heads share it."""
    if (theta, distances) not in _WAVES:
        _WAVES.clear()
        angles = np.arange(distances)[:, None] * np.asarray(theta)[None, :]
        _WAVES[theta, distances] = np.hstack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    return _WAVES[theta, distances]
