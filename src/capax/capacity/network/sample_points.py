"""How many points a sample of m sequences of T tokens gives to each piece of a network.

[CLS] counts as a token, so a sequence has T + 1. The scores of a [CLS] query are functions of one
(query, key) pair per token; a full layer has (T + 1)^2 pairs per sequence. Values are needed only
at the pooled vectors: once the score cover is chosen they are one point per query (sequential
refinement), so the value matrix has no log T.
"""

from dataclasses import dataclass, replace

from capax.capacity.arguments import check_count


@dataclass(frozen=True)
class Sample:
    """m sequences of T tokens and [CLS]; copies = 2 for bounds that use a ghost sample.

    alphabet: if the tokens are one of `alphabet` symbols per position and [CLS] is constant, only
    alphabet T + 1 *distinct* tokens reach the first layer, for every m.
    """

    m: int
    T: int
    copies: int = 1
    alphabet: int | None = None

    def __post_init__(self) -> None:
        check_count("m", self.m)
        check_count("T", self.T)
        check_count("copies", self.copies)
        if self.alphabet is not None:
            check_count("alphabet", self.alphabet)

    @property
    def sequences(self) -> int:
        """Sequences of the cover: m, or 2m with a ghost sample."""
        return self.copies * self.m

    @property
    def tokens(self) -> int:
        """All tokens: sequences times (T + 1)."""
        return self.sequences * (self.T + 1)

    @property
    def cls_pairs(self) -> int:
        """N_s for the [CLS] query: one pair per token, or the distinct ones."""
        if self.alphabet is None:
            return self.tokens
        return min(self.tokens, self.alphabet * self.T + 1)

    @property
    def all_pairs(self) -> int:
        """N_s for a full layer: all pairs of tokens."""
        return self.tokens * (self.T + 1)

    def layer_points(self, last: bool, first: bool = False) -> tuple[int, int]:
        """N_s and N_v of a layer: all rows, or [CLS] only in the last one.

        The first layer has distinct tokens only; after it a row depends on its whole sequence.
        """
        if last:
            return (self.cls_pairs if first else self.tokens), self.sequences
        distinct = self.all_pairs if self.alphabet is None else (self.alphabet * self.T + 1) ** 2
        return (min(self.all_pairs, distinct) if first else self.all_pairs), self.tokens

    def doubled(self) -> "Sample":
        """The same sample with its ghost."""
        return replace(self, copies=2)

    def of_size(self, m: int) -> "Sample":
        """The same setting with another m."""
        return replace(self, m=m)
