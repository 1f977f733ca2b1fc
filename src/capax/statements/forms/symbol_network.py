"""Section B.4, beyond Boolean domains: functions of symbols by the paper's construction.

Tokens from M symbols with orthogonal embeddings E_c: s heads that read the number
of the symbol, c in 0..M-1, and Lemma B.8 on the grid of M^s points, with s M^s bumps.
"""

import itertools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Integer

from capax.attention.numpy_block import softmax
from capax.compiler.paper.bump_network import BumpNetwork, bump_network
from capax.errors import require


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
        """The outputs of the s heads; [CLS] has score 0 and value 0."""
        columns = []
        for position in self.support:
            scores = np.zeros(self.T + 1)
            scores[position] = self.R
            columns.append(symbols @ softmax(scores)[: self.T])
        return np.stack(columns, axis=1)

    def __call__(self, symbols: Integer[np.ndarray, "n T"]) -> Float[np.ndarray, " n"]:
        """The function on rows of symbols."""
        return self.network(self.heads(symbols))
