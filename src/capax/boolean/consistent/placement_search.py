"""All placements of f that agree with a sample, by a pruned search on bit-packed columns.

A partial placement (j_0, .., j_{k-1}) splits the m examples into one set for each undecided node of
the decision diagram; 64 examples share a machine word. Reading one more column moves each set along
the low or the high edge; examples that reach a decided value must carry that label, or the partial
placement is dropped with everything below it. Before that, every column is tried in every role on
its own: for AND, a column that is 0 on a positive example fits no role, and at T = 100 000 only a
few columns are left.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capax.boolean.consistent.decision_diagram import Edge, Level, decision_diagram
from capax.boolean.consistent.packing import Budget, pack
from capax.boolean.functions import SparseFunction, only_bits
from capax.boolean.traits.symmetries import (
    canonical_placements,
    coset_automorphisms,
    num_automorphisms,
    swap_classes,
)

_BLOCK_WORDS = 1 << 22
_MOST_PAIRS = 1 << 18
_WORDS_PER_PREFIX = 64  # cost of building one, in words read by the innermost loop


@dataclass(frozen=True)
class _Prefixes:
    """Partial placements [P, k]; for each, the examples at each undecided node [P, nodes, W]."""

    positions: np.ndarray
    sets: np.ndarray

    def part(self, start: int, stop: int) -> "_Prefixes":
        return _Prefixes(self.positions[start:stop], self.sets[start:stop])


def consistent_placements(
    f: SparseFunction, X: np.ndarray, y: np.ndarray, max_work: int
) -> Iterator[np.ndarray]:
    """Blocks [n, s] of placements J with f(x_J) = y on every example, each function once.

    Every variable of f must be relevant. Raises `InfeasibleError` beyond `max_work` words.
    """
    only_bits(f)
    if f.s == 0:
        yield np.empty((int((f.table[0] == y).all()), 0), dtype=np.int64)
        return
    coset_automorphisms(f)  # raises at once when f has too many orders of its variables
    by_class = {group: _columns_for_role(f, group[0], X, y) for group in swap_classes(f)}
    roles = [by_class[_class_of(f, i)] for i in range(f.s)]
    if all(len(columns) for columns in roles):
        search = _PlacementSearch(f, X, y, roles, max_work)
        search.refuse_the_hopeless(len(y))
        for block in search.below(0, search.root()):
            yield canonical_placements(f, block)


def _columns_for_role(f: SparseFunction, i: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Columns that could stand for variable i: no example has a label out of reach of its bit."""
    low, high = f.split(i)
    no_zeros, no_ones = ~np.isin(y, low), ~np.isin(y, high)
    possible = np.ones(X.shape[1], dtype=bool)
    if no_zeros.any():
        possible &= X[no_zeros].min(axis=0) != 0
    if no_ones.any():
        possible &= X[no_ones].max(axis=0) == 0
    return np.flatnonzero(possible)


class _PlacementSearch:
    """The fixed parts of one search: packed columns for each role, label masks, the work done."""

    def __init__(
        self, f: SparseFunction, X: np.ndarray, y: np.ndarray, roles: list[np.ndarray], limit: int
    ) -> None:
        self.f, self.roles = f, roles
        self.budget = Budget(limit, f.s, max(map(len, roles)))
        self.levels = decision_diagram(f)
        used = np.unique(np.concatenate(roles))
        packed = pack(X[:, used].T != 0)
        self.columns = [packed[np.searchsorted(used, columns)] for columns in roles]
        self.examples = pack(np.ones((1, len(y)), dtype=bool))
        self.wrong = {v: pack((y != v)[None, :])[0] for v in np.unique(f.table).tolist()}
        self.refuters = [self._refuters(k) for k in range(f.s)]
        self.before = [_neighbour_before(f, k) for k in range(f.s)]
        self.wanted = self._needed_by_last() if f.is_boolean and len(y) else None
        self.order = np.argsort(self.columns[-1][:, 0], kind="stable") if len(y) else roles[-1]

    def refuse_the_hopeless(self, m: int) -> None:
        """Raise at once if no prefix is pruned and no second placement can end the search early.

        Until some edge of the diagram reaches a decided value, every prefix is visited; and with m
        30 bits beyond log2 of the number of placements, a second placement is very unlikely.
        """
        decided = (any(t.node is None for t in (*v.low, *v.high)) for v in self.levels)
        depth = next(k for k, found in enumerate(decided) if found)
        num_columns = min(map(len, self.roles))
        num_orders = math.factorial(self.f.s) // num_automorphisms(self.f)
        if m > 30 + math.log2(max(1, math.comb(num_columns, self.f.s) * num_orders)):
            self.budget.check(math.comb(num_columns, depth) * _WORDS_PER_PREFIX)

    def root(self) -> _Prefixes:
        """The empty placement: every example is at the root."""
        return _Prefixes(np.empty((1, 0), dtype=np.int64), self.examples[:, None, :])

    def below(self, k: int, prefixes: _Prefixes) -> Iterator[np.ndarray]:
        """Complete placements that extend `prefixes`, in which variables before k are fixed."""
        if k == self.f.s:
            if len(prefixes.positions):
                yield prefixes.positions
            return
        words = max(1, self.levels[k].num_nodes * self.examples.shape[1])
        pairs = max(1, min(_MOST_PAIRS, _BLOCK_WORDS // words))
        step = pairs if self._looks_up(k) else max(1, pairs // len(self.roles[k]))
        for start in range(0, len(prefixes.positions), step):
            yield from self.below(k + 1, self._extended(k, prefixes.part(start, start + step)))

    def _extended(self, k: int, prefixes: _Prefixes) -> _Prefixes:
        """Every prefix with every column in role k, without the pairs that the sample refutes."""
        rows, columns = self._unrefuted(k, prefixes)
        self.budget.spend(len(rows) * _WORDS_PER_PREFIX)
        chosen = self.roles[k][columns]
        positions = np.concatenate([prefixes.positions[rows], chosen[:, None]], axis=1)
        if k + 1 == self.f.s:
            return _Prefixes(positions, np.empty((len(rows), 0, 0), dtype=np.uint64))
        sets = _moved(self.levels[k], prefixes.sets[rows], self.columns[k][columns])
        return _Prefixes(positions, sets)

    def _unrefuted(self, k: int, prefixes: _Prefixes) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (prefix, column) that no example refutes, 64 examples at a time."""
        sets, refuters = prefixes.sets, self.refuters[k]  # [P, nodes, W], [W, nodes, K]
        rows, columns = self._candidates(k, prefixes)
        for word in range(sets.shape[2]):
            if not len(rows):
                break
            self.budget.spend(len(rows) * sets.shape[1])
            bad = np.zeros(len(rows), dtype=np.uint64)
            for c in range(sets.shape[1]):
                bad |= sets[rows, c, word] & refuters[word, c, columns]
            rows, columns = rows[bad == 0], columns[bad == 0]
        return rows, columns

    def _candidates(self, k: int, prefixes: _Prefixes) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (prefix, column) in order that the first 64 examples do not refute."""
        if self._looks_up(k):
            rows, columns = self._looked_up(prefixes.sets)
        else:
            first = self._first_column(k, prefixes.positions)
            refuted = self._first_word(k, prefixes.sets, first)
            flat = np.flatnonzero(refuted == 0)  # much faster than nonzero in two dimensions
            rows, columns = np.divmod(flat, max(1, refuted.shape[1]))
            columns += first
        allowed = self._in_order(k, prefixes.positions[rows], self.roles[k][columns])
        return rows[allowed], columns[allowed]

    def _first_word(self, k: int, sets: np.ndarray, first: int) -> np.ndarray:
        """[P, K - first]: which of the first 64 examples refute the pair."""
        shape = (len(sets), len(self.roles[k]) - first)
        self.budget.spend(shape[0] * shape[1] * max(1, sets.shape[1]))
        if sets.shape[1] == 0 or sets.shape[2] == 0:
            return np.zeros(shape, dtype=np.uint64)
        refuters = self.refuters[k][0, :, None, first:]
        bad = sets[:, 0, None, 0] & refuters[0]
        for c in range(1, sets.shape[1]):
            bad |= sets[:, c, None, 0] & refuters[c]
        return bad

    def _first_column(self, k: int, positions: np.ndarray) -> int:
        """Columns before this one come too early for every prefix of the block."""
        if self.before[k] < 0 or not len(positions):
            return 0
        lowest = positions[:, self.before[k]].min()
        return int(np.searchsorted(self.roles[k], lowest, side="right"))

    def _looks_up(self, k: int) -> bool:
        return k + 1 == self.f.s and self.wanted is not None

    def _looked_up(self, sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs whose column equals, on the first 64 examples, the one column each prefix needs."""
        assert self.wanted is not None
        words = self.columns[-1][self.order, 0]
        need = np.bitwise_or.reduce(sets[:, :, 0] & self.wanted[:, 0], axis=1)
        first, last = np.searchsorted(words, need, "left"), np.searchsorted(words, need, "right")
        num = last - first
        rows = np.repeat(np.arange(len(sets)), num)
        self.budget.spend(len(sets) * _WORDS_PER_PREFIX)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(num) - num, num)
        return rows, self.order[np.repeat(first, num) + within]

    def _in_order(self, k: int, positions: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Is the column free, and after the previous variable that could be swapped with k?"""
        allowed = np.ones(len(columns), dtype=bool)
        for i in range(k):
            if i == self.before[k]:
                allowed &= columns > positions[:, i]
            elif i not in _class_of(self.f, k):
                allowed &= columns != positions[:, i]
        return allowed

    def _needed_by_last(self) -> np.ndarray | None:
        """[nodes, W]: where the last column must be 1, if it decides every label (as in parity).

        This is so when no edge before the last level leads to a decided value; then each prefix
        needs one exact column, which is looked up instead of tried.
        """
        if any(t.node is None for level in self.levels[:-1] for t in (*level.low, *level.high)):
            return None
        return np.stack([~self.wrong[target.value] for target in self.levels[-1].high])

    def _refuters(self, k: int) -> np.ndarray:
        """[W, nodes, K]: at node c, the examples that would get a wrong label from this column."""
        level, columns = self.levels[k], self.columns[k]
        masks = np.zeros((level.num_nodes, *columns.shape), dtype=np.uint64)
        for c in range(level.num_nodes):
            if level.high[c].node is None:
                masks[c] |= columns & self.wrong[level.high[c].value]
            if level.low[c].node is None:
                masks[c] |= ~columns & self.wrong[level.low[c].value]
        return np.ascontiguousarray(np.moveaxis(masks, 2, 0))


def _moved(level: Level, sets: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The examples at each node of the next level, after reading `columns` [n, W]."""
    targets = [t.node for t in (*level.low, *level.high) if t.node is not None]
    moved = np.zeros((len(sets), max(targets, default=-1) + 1, sets.shape[2]), dtype=np.uint64)

    def move(target: Edge, examples: np.ndarray) -> None:
        if target.node is not None:
            moved[:, target.node] |= examples

    for c in range(level.num_nodes):
        move(level.high[c], sets[:, c] & columns)
        move(level.low[c], sets[:, c] & ~columns)
    return moved


def _class_of(f: SparseFunction, i: int) -> tuple[int, ...]:
    return next(group for group in swap_classes(f) if i in group)


def _neighbour_before(f: SparseFunction, i: int) -> int:
    """The variable before i in its swap class (-1: it is the first)."""
    group = _class_of(f, i)
    return group[group.index(i) - 1] if group[0] != i else -1
