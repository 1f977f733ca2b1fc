"""Rotary positions: the size of the score matrix W_Q R_D^T W_K^T as a function of the distance D.

||W_Q R_D^T W_K^T||_F^2 = tr(R_D A R_D^T B) with the Gram matrices A, B of the two factors. In the
complex coordinates z of the planes a symmetric A acts as z -> P z + Q conj(z), R_D multiplies plane
a by e^{i D theta_a}, and the real trace of a composition is twice the real part of its linear part:

    f(D) = 2 Re sum_ab [ e^{iD(theta_a - theta_b)} P^A_ab P^B_ba
                       + e^{iD(theta_a + theta_b)} Q^A_ab conj(Q^B_ba) ].

Coordinates without rotation are planes of frequency 0. This is a sum of waves c_j e^{i D w_j}. A
Fourier transform with unequal frequencies gives all D at once (Greengard and Lee, SIAM Review
2004): every c_j is spread over a fine grid with a Gaussian, the grid is transformed, and the result
is divided by the Gaussian's own transform.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int

from capax.audit.layouts.attention_layer import Rotary

MOST_DISTANCES = 2**20  # a transform of this size takes about 100 MB
SPREAD = 12  # grid points to either side: an error below 1e-11 of the sum of |c_j|
Square = Float[np.ndarray, "k k"]


@dataclass(frozen=True)
class Waves:
    """f(D) = Re sum_j c_j e^{i D w_j}, the squared Frobenius norm at distance D."""

    c: Complex[np.ndarray, "waves"]
    w: Float[np.ndarray, "waves"]

    def norms_at(self, D: Int[np.ndarray, "some"]) -> Float[np.ndarray, "some"]:
        """The Frobenius norms at single distances, wave by wave."""
        f = (self.c * np.exp(1j * D[:, None] * self.w)).real.sum(axis=1)
        return np.sqrt(np.maximum(0.0, f))

    def norms_below(self, distances: int) -> Float[np.ndarray, "D"]:
        """The Frobenius norms for D = 0, ..., distances - 1."""
        N = max(64, distances + distances % 2)
        grid, width = 2 * N, math.pi * SPREAD / (3 * N * N)
        middle = self.c * np.exp(0.5j * N * self.w)  # D is counted from N/2
        at = np.mod(-self.w, 2 * math.pi) * grid / (2 * math.pi)
        nearest = np.floor(at).astype(np.int64)[:, None] + np.arange(1 - SPREAD, SPREAD + 1)
        away = (nearest - at[:, None]) * (2 * math.pi / grid)
        weights = middle[:, None] * np.exp(-(away**2) / (4 * width))
        cells = np.mod(nearest, grid).ravel()
        spread = np.bincount(cells, weights.real.ravel(), grid) + 1j * np.bincount(
            cells, weights.imag.ravel(), grid
        )
        D = np.arange(-(N // 2), N // 2)
        f = np.fft.fft(spread)[D] * np.exp(width * D.astype(np.float64) ** 2)
        f *= math.sqrt(math.pi / width) / grid
        return np.sqrt(np.maximum(0.0, f.real))[:distances]


def waves_of(A: Square, B: Square, rotary: Rotary, theta: Float[np.ndarray, "planes"]) -> Waves:
    """The waves for Gram matrices A of W_Q and B of W_K and the frequencies theta."""
    if len(A) % 2:  # an unpaired coordinate gets a partner that is always 0
        A, B = (np.pad(gram, (0, 1)) for gram in (A, B))
    first, second = rotary.coordinates()
    rest = np.arange(2 * rotary.planes, len(A))
    half = len(rest) // 2
    theta = np.concatenate([theta, np.zeros(half)])
    first, second = np.append(first, rest[:half]), np.append(second, rest[half:])
    P_A, Q_A = _complex_parts(A, first, second)
    P_B, Q_B = _complex_parts(B, first, second)
    c = np.concatenate([(2 * P_A * P_B.T).ravel(), (2 * Q_A * Q_B.T.conj()).ravel()])
    w = np.concatenate(
        [np.subtract.outer(theta, theta).ravel(), np.add.outer(theta, theta).ravel()]
    )
    return Waves(c, w)


def largest_over_distances(
    A: Square, B: Square, rotary: Rotary, limit: int | None, window: int | None = None
) -> tuple[float, int] | None:
    """max_D ||W_Q R_D^T W_K^T||_F over all D < min(limit, window), and that D; or None.

    None if neither limit nor window is known, if there are more than 2^20 distances, or if the
    frequencies of some context up to the limit are unknown. The value is the norm at the returned
    distance; it is the maximum up to an error of 1e-11 times the sum of |c_j|.
    """
    longest = math.inf if limit is None else limit
    reach = min(longest, math.inf if window is None else window)
    if reach > MOST_DISTANCES or rotary.frequencies(longest) is None:
        return None
    found = []
    for length, theta in rotary.contexts:
        waves = waves_of(A, B, rotary, theta)
        D = int(waves.norms_below(int(min(length, reach))).argmax())
        found.append((float(waves.norms_at(np.array([D]))[0]), D))
        if length >= longest:
            break
    return max(found)


def _complex_parts(
    A: Square, first: np.ndarray, second: np.ndarray
) -> tuple[Complex[np.ndarray, "p p"], Complex[np.ndarray, "p p"]]:
    aa, ab = A[np.ix_(first, first)], A[np.ix_(first, second)]
    ba, bb = A[np.ix_(second, first)], A[np.ix_(second, second)]
    return 0.5 * ((aa + bb) + 1j * (ba - ab)), 0.5 * ((aa - bb) + 1j * (ba + ab))
