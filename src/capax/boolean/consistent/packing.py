"""Sets of examples as machine words, and a count of the words that a search has read."""

import numpy as np
from jaxtyping import Bool, UInt64

from capax.errors import InfeasibleError


def pack(bits: Bool[np.ndarray, "n m"]) -> UInt64[np.ndarray, "n W"]:
    """Boolean [n, m] as uint64 [n, ceil(m / 64)], example i in bit i mod 64, unused bits 0."""
    num_words = -(-bits.shape[1] // 64)
    padded = np.zeros((bits.shape[0], num_words * 8), dtype=np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


class Budget:
    """The number of words that a search for s of `num_columns` columns may still read."""

    def __init__(self, limit: int, s: int, num_columns: int) -> None:
        self.limit, self.s, self.num_columns, self.spent = limit, s, num_columns, 0

    def spend(self, words: int) -> None:
        """Count `words`; raises `InfeasibleError` beyond the limit."""
        self.spent += words
        self.check(self.spent)

    def check(self, words: int) -> None:
        """Raise `InfeasibleError` when a search is known to read more than the limit."""
        if words > self.limit:
            raise InfeasibleError(
                f"version space: more than {self.limit:.0e} words to search for s = {self.s} "
                f"among {self.num_columns} candidate columns; use a smaller T or s, or a larger m"
            )
