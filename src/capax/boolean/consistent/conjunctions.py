"""All ANDs of s bits that agree with a sample: covers of the negatives by zeros.

A column that is 0 on a positive example is excluded. J is consistent exactly when on every negative
some column of J is 0, so we list the s-subsets whose zeros cover all negatives. Columns are taken
in falling order of their number of zeros, which prunes most of the search: with r columns still to
choose and u negatives uncovered, the next column must bring at least u/r zeros, and if it brings c,
at most (r-1) c may stay uncovered. The last column must be 0 on the rarest uncovered negative, so
only the columns with a zero there are tried. At T = 10^6 this leaves a few candidates.
"""

from collections.abc import Iterator

import numpy as np

from capax.boolean.consistent.packing import Budget, pack

_MOST_PAIRS = 1 << 18
_NUM_LISTS = 64


def conjunction_placements(
    s: int, X: np.ndarray, y: np.ndarray, max_work: int
) -> Iterator[np.ndarray]:
    """Blocks [n, s] of sorted supports J, s >= 1, with AND(x_J) = y on every example.

    Raises `InfeasibleError` beyond `max_work` words.
    """
    positive, negative = y == 1, y == 0
    columns = np.flatnonzero(X[positive].min(axis=0, initial=1) != 0)
    if len(columns) < s or not (positive | negative).all():
        return
    ones = X[negative][:, columns] != 0
    search = _Covers(s, ones, Budget(max_work, s, len(columns)))
    for block in search.below(np.empty((1, 0), dtype=np.int64), search.uncovered):
        yield np.sort(columns[search.order[block]], axis=1)


class _Covers:
    """Columns by falling number of zeros, negatives by rising number of zeros, both packed."""

    def __init__(self, s: int, ones: np.ndarray, budget: Budget) -> None:
        self.s, self.budget = s, budget
        ones = ones[np.argsort((~ones).sum(axis=1), kind="stable")]  # hardest negative first
        zeros = (~ones).sum(axis=0)
        self.order = np.argsort(-zeros, kind="stable")
        self.zeros = zeros[self.order]
        self.ones = pack(ones[:, self.order].T)  # [K, W]
        self.uncovered = pack(np.ones((1, len(ones)), dtype=bool))
        # list e < 64: the columns with a zero on negative e; the last list: every column
        free = ~ones[:_NUM_LISTS, self.order]
        everywhere = np.ones((1, len(self.order)), dtype=bool)
        member = np.concatenate([free, np.zeros((_NUM_LISTS - len(free), len(self.order)), bool)])
        member = np.concatenate([member, everywhere])
        self.listed = np.nonzero(member)[1]
        starts = np.cumsum(np.concatenate([[0], member.sum(axis=1)[:-1]]))
        before = np.cumsum(np.pad(member, ((0, 0), (1, 0))), axis=1, dtype=np.int64)
        self.place = starts[:, None] + before  # where column j would stand in list e

    def below(self, chosen: np.ndarray, uncovered: np.ndarray) -> Iterator[np.ndarray]:
        """Complete covers that extend `chosen` [P, k], which leave `uncovered` [P, W]."""
        remaining = self.s - chosen.shape[1]
        if remaining == 0:
            if len(chosen):
                yield chosen
            return
        first, last = self._ranges(chosen, uncovered, remaining)
        ends = np.cumsum(last - first)
        start = 0
        while start < len(chosen):
            used = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, used + _MOST_PAIRS, side="right")))
            part = slice(start, stop)
            rows, columns = self._pairs(first[part], last[part])
            rows, columns, left = self._kept(uncovered[part], rows, columns, remaining)
            grown = np.concatenate([chosen[part][rows], columns[:, None]], axis=1)
            yield from self.below(grown, left)
            start = stop

    def _ranges(
        self, chosen: np.ndarray, uncovered: np.ndarray, remaining: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each prefix, the part of a list in `self.listed` that holds its candidates."""
        needed = -(-np.bitwise_count(uncovered).sum(axis=1, dtype=np.int64) // remaining)
        after = chosen[:, -1] + 1 if chosen.shape[1] else np.zeros(len(chosen), dtype=np.int64)
        before = np.searchsorted(-self.zeros, -needed, side="right")
        which = np.full(len(chosen), _NUM_LISTS)
        if remaining == 1 and uncovered.shape[1]:
            word = uncovered[:, 0]
            lowest = np.bitwise_count((word & (~word + np.uint64(1))) - np.uint64(1))
            which = np.where(word != 0, lowest, _NUM_LISTS)
        first = self.place[which, after]
        return first, np.maximum(first, self.place[which, np.maximum(before, after)])

    def _pairs(self, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each prefix with each of its candidates."""
        num = last - first
        rows = np.repeat(np.arange(len(num)), num)
        shift = np.repeat(first - (np.cumsum(num) - num), num)
        return rows, self.listed[np.arange(len(rows)) + shift]

    def _kept(
        self, uncovered: np.ndarray, rows: np.ndarray, columns: np.ndarray, remaining: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs that leave no more uncovered than the remaining columns could cover."""
        room = (remaining - 1) * self.zeros[columns]
        open_count = np.zeros(len(rows), dtype=np.int64)
        for word in range(uncovered.shape[1]):
            self.budget.spend(len(rows))
            open_count += np.bitwise_count(uncovered[rows, word] & self.ones[columns, word])
            keep = open_count <= room
            rows, columns, room, open_count = (a[keep] for a in (rows, columns, room, open_count))
        return rows, columns, uncovered[rows] & self.ones[columns]
