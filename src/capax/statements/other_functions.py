"""Section 5, remarks, and Section B.4: averages, the influence of one token, other domains.

*Averages.* With W_Q = W_K = 0 all scores are 0 and a head gives the mean of its values.

*Influence of one token (Hahn 2020).* Let all scores lie in [-S, S], and all values within B of one
centre. A token holds weight p = w/(w + Z) with w <= e^S and Z >= T e^-S for the T other tokens,
[CLS] among them. Around the centre, the others have a mean u_0 with |u_0| <= B, and the output is
u_0 + p (v - u_0). A change of the token moves it by

    |p v - p' v' - (p - p') u_0| <= B (p + p' + |p - p'|) = 2 B max(p, p') <= 2 B/(1 + T e^{-2S}).

It is attained: the token at score S with value +B or -B, all others at -S. At constant norms it
goes to 0 as 1/T; scores of size S = (1/2) ln T keep it at B.

*Beyond Boolean.* Tokens from M symbols with orthogonal embeddings E_c: s heads that read the number
of the symbol, c in 0..M-1, and Lemma B.8 on the grid of M^s points, with s M^s bumps.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Integer

from capax.attention.numpy_block import softmax
from capax.compiler.construction.bump_network import BumpNetwork, bump_network
from capax.errors import require


def influence_bound(T: int, S: float, B: float = 1.0) -> float:
    """The largest change of a head's output by one token among T + 1, scores in [-S, S]."""
    require(T >= 1, "T", "at least one other token", T)
    return 2 * B / (1 + T * math.exp(-2 * S))


def influence_attained(T: int, S: float, B: float = 1.0) -> float:
    """The change of a head that attains the bound, by its forward pass."""
    weights = softmax(np.array([S] + [-S] * T))
    outputs = [weights @ np.array([value] + [0.0] * T) for value in (B, -B)]
    return float(abs(outputs[0] - outputs[1]))


def average_head(X: Float[np.ndarray, "T d"], W_V: Float[np.ndarray, "d k"]) -> np.ndarray:
    """The head with W_Q = W_K = 0: softmax of zeros, so the mean of the values."""
    return softmax(np.zeros(len(X))) @ X @ W_V


def subspace_average_head(
    X: Float[np.ndarray, "T d"],
    basis: Float[np.ndarray, "s d"],
    query: Float[np.ndarray, " s"],
    W_V: Float[np.ndarray, "d k"],
) -> np.ndarray:
    """A head whose keys are the coordinates of the tokens in an s-dimensional subspace."""
    return softmax(X @ basis.T @ query) @ X @ W_V


class SymbolNetwork:
    """A function of s symbols among T positions over {0..M-1}: s heads and a bump network.

    Head h: W_Q = R v_CLS, W_K = P_i, W_V = sum_c c E_c, so it gives the symbol at its position to
    within 2 (M - 1) T e^-R <= 1/4; the bumps have delta = 1/4, the symbols are 1 apart.
    """

    def __init__(self, T: int, support: tuple[int, ...], M: int, f: Callable[..., float]) -> None:
        require(M >= 2, "M", "at least two symbols", M)
        self.T, self.support, self.M = T, support, M
        self.R = math.log(8 * T * (M - 1))
        grid = np.array(list(itertools.product(range(M), repeat=len(support))), dtype=np.float64)
        values = np.array([float(f(*map(int, row))) for row in grid])
        self.network: BumpNetwork = bump_network(grid, values, 0.25)

    def heads(self, symbols: Integer[np.ndarray, "n T"]) -> Float[np.ndarray, "n s"]:
        """What the s heads give; [CLS] has score 0 and value 0."""
        columns = []
        for position in self.support:
            scores = np.zeros(self.T + 1)
            scores[position] = self.R
            columns.append(symbols @ softmax(scores)[: self.T])
        return np.stack(columns, axis=1)

    def __call__(self, symbols: Integer[np.ndarray, "n T"]) -> Float[np.ndarray, " n"]:
        """The function on rows of symbols."""
        return self.network(self.heads(symbols))
