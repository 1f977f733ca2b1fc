"""Which function: at every pattern of the candidate bits, the majority over random fillers.

The other bits (fillers) are drawn anew for every question. The consistency of a pattern is the
share of fillers that agree with its majority; its doubt is the chance that so large a majority is
luck when the truth is a tie or the other side: P[Bin(n, 1/2) >= k], an exact tail.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from capax.boolean.functions import SparseFunction
from capax.decompile.reading.influence import random_bits
from capax.decompile.reading.oracle import CELLS, Oracle


@dataclass(frozen=True)
class TruthTable:
    """The majority decision at each of the 2^s patterns of `support`, row sum_i x_i 2^i.

    `ones[row]` of `fillers` random fillers gave the decision 1.
    """

    support: tuple[int, ...]
    ones: Int[np.ndarray, " rows"]
    fillers: int
    T: int

    @property
    def values(self) -> Bool[np.ndarray, " rows"]:
        """The majority; a tie counts as 0."""
        return self.ones * 2 > self.fillers

    @property
    def consistency(self) -> Float[np.ndarray, " rows"]:
        """Share of the fillers that agree with the majority, 1/2 to 1."""
        return np.maximum(self.ones, self.fillers - self.ones) / self.fillers

    @property
    def doubt(self) -> float:
        """Probability that some majority is wrong by luck: the tails of all rows added."""
        from scipy.stats import binom

        most = np.maximum(self.ones, self.fillers - self.ones)
        return float(min(1.0, binom.sf(most - 1, self.fillers, 0.5).sum()))

    @property
    def function(self) -> SparseFunction:
        """The majority as a function on the bits that matter to it."""
        return SparseFunction(self.support, self.values.astype(np.float64), self.T).relevant()

    def majority_on(self, support: tuple[int, ...], p: float) -> SparseFunction:
        """The majority on fewer bits, those left out being Bernoulli(p)."""
        rows = np.arange(len(self.ones))
        left = [i for i, bit in enumerate(self.support) if bit not in support]
        ones = sum(((rows >> i & 1 for i in left)), np.zeros_like(rows))
        weight = p**ones * (1 - p) ** (len(left) - ones)
        target = np.zeros(len(rows), np.int64)
        for i, bit in enumerate(support):
            target |= (rows >> self.support.index(bit) & 1) << i
        share = np.bincount(target, weights=weight * self.ones, minlength=1 << len(support))
        return SparseFunction(support, (2 * share > self.fillers).astype(np.float64), self.T)

    def projected(self, support: tuple[int, ...]) -> "TruthTable":
        """The table on fewer bits; the bits left out count as fillers."""
        rows, n = np.arange(len(self.ones)), self.fillers
        target = np.zeros(len(rows), np.int64)
        for i, bit in enumerate(support):
            target |= (rows >> self.support.index(bit) & 1) << i
        ones = np.bincount(target, weights=self.ones, minlength=1 << len(support))
        merged = n << (len(self.support) - len(support))
        return TruthTable(support, ones.astype(np.int64), merged, self.T)


def read_table(
    model: Oracle, rng: np.random.Generator, support: tuple[int, ...], *, p: float, fillers: int
) -> TruthTable:
    """Ask about every pattern of `support` with `fillers` random fillers each."""
    patterns = np.arange(1 << len(support))
    bits = (patterns[:, None] >> np.arange(len(support)) & 1).astype(np.uint8)
    ones = np.zeros(len(patterns), np.int64)
    block = max(1, CELLS // (model.T * fillers))
    for start in range(0, len(patterns), block):
        part = bits[start : start + block]
        X = random_bits(rng, len(part) * fillers, model.T, p)
        X[:, list(support)] = np.repeat(part, fillers, axis=0)
        ones[start : start + block] = model(X).reshape(len(part), fillers).sum(axis=1)
    return TruthTable(support, ones, fillers, model.T)
