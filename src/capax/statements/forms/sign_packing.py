"""2^m heads that need a cover of 2^m elements: the counterexample of four errata.

Sequence i has three tokens: x_tau = B_X e_0, and +-(B_X/sqrt 2)(e_i + f). The head of a sign
vector sigma has W_Q = e_0, W_K = (c/sqrt m) sum_i sigma_i e_i and reads W_V = f. Then

    scores 0, +-s sigma_i with s = B_X^2 c / sqrt(2m),      output sigma_i h,
    h = (B_X / sqrt 2) (e^s - e^-s)/(1 + e^s + e^-s),

so two heads differ by 2h on some sequence and 2^m elements are needed at every eps < h. Its norms:
||W_QK^T||_{2,1} = ||W_QK||_2 = c, ||W_V||_{2,1} = ||W_V||_2 = 1, but W_K^T W_Q = 0.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.attention.numpy_block import BlockMatrices, attention
from capax.errors import require


@dataclass(frozen=True)
class SignPacking:
    """m sequences, tokens of length B_X, scores of size s; c and h follow."""

    m: int
    B_X: float = 1.0
    s: float = 1.0

    @property
    def c(self) -> float:
        """||W_QK^T||_{2,1} of every head: s sqrt(2m) / B_X^2."""
        return self.s * math.sqrt(2 * self.m) / self.B_X**2

    @property
    def h(self) -> float:
        """Half the distance of two heads: cover radii below it need 2^m elements."""
        ratio = 2 * math.sinh(self.s) / (1 + 2 * math.cosh(self.s))
        return self.B_X / math.sqrt(2) * ratio

    @property
    def log_size(self) -> float:
        """m ln 2."""
        return self.m * math.log(2)

    @property
    def d(self) -> int:
        """Width of a token: e_0, e_1..e_m and f."""
        return self.m + 2

    def sequence(self, i: int) -> Float[np.ndarray, "3 d"]:
        """The tokens of sequence i; the last one is the query."""
        token = np.zeros(self.d)
        token[[1 + i, -1]] = self.B_X / math.sqrt(2)
        asking = np.zeros(self.d)
        asking[0] = self.B_X
        return np.stack([token, -token, asking])

    def head(self, sigma: Float[np.ndarray, " m"]) -> BlockMatrices:
        """The head of one sign vector; W_C copies its output to the first coordinate."""
        require(sigma.shape == (self.m,), "sigma", f"{self.m} signs", sigma.shape)
        unit = np.eye(self.d)
        W_K = np.zeros((self.d, 1))
        W_K[1 : 1 + self.m, 0] = self.c / math.sqrt(self.m) * sigma
        return BlockMatrices(unit[:, :1], W_K, unit[:, -1:], unit[:1])

    def outputs(self, sigma: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """The head's output on every sequence, by its forward pass."""
        W = self.head(sigma)
        rows = (attention(self.sequence(i), W)[-1, 0] for i in range(self.m))
        return np.array(list(rows))


def trained_position_outputs(
    signs: Float[np.ndarray, " T"], gap: float = 8.0
) -> Float[np.ndarray, " T"]:
    """Outputs on T sequences of one fixed head whose positions are P_t = signs[t] f.

    Sequence i marks token i (its score is `gap` higher), and the head reads f. Any two of the 2^T
    sign vectors give outputs of different sign on some sequence, so trained positions cost T ln 2.
    """
    T = len(signs)
    weights = math.exp(gap) / (math.exp(gap) + T - 1), 1 / (math.exp(gap) + T - 1)
    return weights[0] * signs + weights[1] * (signs.sum() - signs)
