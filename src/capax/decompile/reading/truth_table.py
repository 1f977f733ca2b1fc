"""The function of a model: at every pattern of the candidate bits, the majority over fillers.

The other bits (fillers) are drawn anew for every evaluation. The consistency of a pattern is the
share of fillers that agree with its majority; its doubt is the chance of so large a majority if
the truth is a tie or the other side: P[Bin(n, 1/2) >= k], an exact tail.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from capax.boolean.functions import SparseFunction, all_patterns
from capax.decompile.reading.influence import random_inputs
from capax.decompile.reading.oracle import CELLS, Oracle


@dataclass(frozen=True)
class TruthTable:
    """The majority decision at each of the M^s patterns of `support`, row sum_i x_i M^i.

    `ones[row]` of `fillers` random fillers gave the decision 1.
    """

    support: tuple[int, ...]
    ones: Int[np.ndarray, " rows"]
    fillers: int
    T: int
    alphabet: int = 2

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
        """Probability that some majority is wrong by chance: the sum of the tails of all rows."""
        from scipy.special import bdtrc  # scipy.stats takes half a second to import

        most = np.maximum(self.ones, self.fillers - self.ones)
        return float(min(1.0, bdtrc(most - 1, self.fillers, 0.5).sum()))

    @property
    def function(self) -> SparseFunction:
        """The majority as a function on its relevant bits."""
        return self._of(self.support, self.values).relevant()

    def _of(self, support: tuple[int, ...], truth: np.ndarray) -> SparseFunction:
        table = truth.astype(np.float64)
        return SparseFunction(support, table, self.T, alphabet=self.alphabet)

    def _rows_on(self, support: tuple[int, ...]) -> np.ndarray:
        """For each row, the row of a table on some of the bits."""
        shown = all_patterns(len(self.support), self.alphabet)
        kept = shown[:, [self.support.index(bit) for bit in support]]
        return kept @ self.alphabet ** np.arange(len(support))

    def majority_on(self, support: tuple[int, ...], p: float) -> SparseFunction:
        """The majority on fewer bits; the other bits are Bernoulli(p)."""
        left = [i for i, bit in enumerate(self.support) if bit not in support]
        shown = all_patterns(len(self.support), self.alphabet)[:, left]
        if self.alphabet == 2:
            weight = np.where(shown == 1, p, 1 - p).prod(axis=1)
        else:
            weight = np.full(len(shown), float(self.alphabet) ** -len(left))
        size = self.alphabet ** len(support)
        target = self._rows_on(support)
        share = np.bincount(target, weights=weight * self.ones, minlength=size)
        return self._of(support, 2 * share > self.fillers)

    def projected(self, support: tuple[int, ...]) -> "TruthTable":
        """The table on fewer bits; the bits left out count as fillers."""
        size = self.alphabet ** len(support)
        ones = np.bincount(self._rows_on(support), weights=self.ones, minlength=size)
        merged = self.fillers * (len(self.ones) // size)
        return TruthTable(support, ones.astype(np.int64), merged, self.T, self.alphabet)


def read_table(
    model: Oracle, rng: np.random.Generator, support: tuple[int, ...], *, p: float, fillers: int
) -> TruthTable:
    """Evaluate every pattern of `support` with `fillers` random fillers each."""
    patterns = all_patterns(len(support), model.alphabet).astype(np.uint8)
    ones = np.zeros(len(patterns), np.int64)
    block = max(1, CELLS // (model.T * fillers))
    for start in range(0, len(patterns), block):
        part = patterns[start : start + block]
        X = random_inputs(model, rng, len(part) * fillers, p)
        X[:, list(support)] = np.repeat(part, fillers, axis=0)
        ones[start : start + block] = model(X).reshape(len(part), fillers).sum(axis=1)
    return TruthTable(support, ones, fillers, model.T, model.alphabet)
