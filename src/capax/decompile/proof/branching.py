"""All inputs, cut into cells until the enclosure of every cell decides, or the budget is spent.

A cell is cut where that is likely to tighten its enclosure most, each cell at its own place: at one
filler (which becomes a fixed position, 0 in one half and 1 in the other) or at the middle of its
interval for the number of ones. The gain of a cut is estimated in the residual stream: the
filler's part of the linear form, and its part of the range of a normaliser D_h times the remainder
of head h. Many heads look for a zero and, where the bits that matter have none, find it at the few
fillers they take for them: cutting there makes a chain of cells, "the first of these that is 0".
The cells of most probability come first.
"""

from dataclasses import dataclass, replace

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.decompile.proof.enclosure import enclose
from capax.decompile.proof.head_sets import Cells, HeadSets
from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.rounding import TINY

NUMBERS = 1 << 21
"""Numbers per array: cells are enclosed in groups of at most this size."""
WAVE = 48
"""Cells that are cut at once."""
MAX_FIXED = 40
AT_COUNT, NOWHERE = -1, -2


@dataclass(frozen=True)
class Leaves:
    """The cells at the end: pattern of the support, ones among fixed fillers, interval for the
    other `free` fillers, and a certified lower bound of the margin. Together: all inputs."""

    s: int
    T: int
    rows: np.ndarray
    fixed_ones: np.ndarray
    fixed: np.ndarray
    first: np.ndarray
    last: np.ndarray
    margins: np.ndarray
    enclosed: int
    cells: "tuple[_Cell, ...]" = ()

    def proved_share(self, p: float) -> float:
        """Probability of the proved cells when bits are independent Bernoulli(p)."""
        if (self.margins > 0).all():
            return 1.0
        ones = np.bitwise_count(self.rows) + self.fixed_ones
        pattern = p**ones * (1 - p) ** (self.s + self.fixed - ones)
        inside = count_probability(self.first, self.last, self.T - self.s - self.fixed, p)
        return float(min(1.0, (pattern * inside)[self.margins > 0].sum()))

    def proved_ones(self, p: float) -> tuple[tuple[int, int] | None, float]:
        """The most probable interval of counts of ones among all fillers that is proved whole."""
        F = self.T - self.s
        good = np.ones(F + 1, bool)
        for i in np.flatnonzero(self.margins <= 0):
            good[self.first[i] + self.fixed_ones[i] : self.last[i] + self.fixed_ones[i] + 1] = False
        edges = np.diff(np.concatenate([[0], good.astype(int), [0]]))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        if not len(starts):
            return None, 0.0
        shares = count_probability(starts, ends, F, p)
        best = int(np.argmax(shares))
        return (int(starts[best]), int(ends[best])), float(min(1.0, shares[best]))


def count_probability(
    first: np.ndarray, last: np.ndarray, n: np.ndarray | int, p: float
) -> np.ndarray:
    """P[first <= Bin(n, p) <= last]."""
    from scipy.special import bdtr

    below = np.where(first > 0, bdtr(np.maximum(first - 1, 0), n, p), 0.0)
    return np.asarray(bdtr(last, n, p) - below)


@dataclass(frozen=True)
class _Cell:
    """One cell; `margin` and the `place` to cut it at once it is enclosed."""

    fixed: tuple[int, ...]
    row: int
    first: int
    last: int
    margin: float = -np.inf
    place: int = NOWHERE

    def probability(self, T: int, p: float) -> float:
        ones, s = self.row.bit_count(), len(self.fixed)
        inside = count_probability(np.array(self.first), np.array(self.last), T - s, p)
        return float(p**ones * (1 - p) ** (s - ones) * inside)

    def halves(self, T: int) -> "list[_Cell]":
        """Its two pieces; one without any input is dropped."""
        if self.place == AT_COUNT:
            middle = (self.first + self.last) // 2
            ends = (self.first, middle), (middle + 1, self.last)
            return [_Cell(self.fixed, self.row, *pair) for pair in ends]
        fixed, s = (*self.fixed, self.place), len(self.fixed)
        zero = _Cell(fixed, self.row, self.first, min(self.last, T - s - 1))
        one = _Cell(fixed, self.row | 1 << s, max(self.first - 1, 0), self.last - 1)
        return [cell for cell in (zero, one) if cell.first <= cell.last]


def branch(
    layer: OneQueryLayer,
    f: SparseFunction,
    *,
    threshold: float = 0.0,
    p: float = 0.5,
    most: int = 1024,
    start: Leaves | None = None,
) -> Leaves:
    """Cells that cover all inputs, with certified margins; at most about `most` are enclosed.

    start: leaves of another layer, whose cells are enclosed first, whatever `most` is.
    """
    T = layer.tables.T
    todo = [_Cell(f.support, row, 0, T - f.s) for row in range(1 << f.s)]
    done: list[_Cell] = []
    waiting: list[_Cell] = []
    enclosed, budget = 0, max(most, 3 << f.s)
    if start is not None:
        todo, budget = list(start.cells), len(start.cells) + most
    while todo:
        for cell in _enclosed(layer, f, todo, threshold):
            decided = cell.margin > 0 or cell.place == NOWHERE
            (done if decided else waiting).append(cell)
        enclosed += len(todo)
        waiting.sort(key=lambda cell: cell.probability(T, p))
        size = min(WAVE, len(waiting), (budget - enclosed) // 2)
        chosen = [waiting.pop() for _ in range(max(0, size))]
        todo = [piece for cell in chosen for piece in cell.halves(T)]
    return _leaves([*done, *waiting], f, T, enclosed)


def _leaves(cells: list[_Cell], f: SparseFunction, T: int, enclosed: int) -> Leaves:
    mask = (1 << f.s) - 1
    return Leaves(
        f.s,
        T,
        np.array([c.row & mask for c in cells]),
        np.array([(c.row >> f.s).bit_count() for c in cells]),
        np.array([len(c.fixed) - f.s for c in cells]),
        np.array([c.first for c in cells]),
        np.array([c.last for c in cells]),
        np.array([c.margin for c in cells]),
        enclosed,
        tuple(cells),
    )


def _enclosed(
    layer: OneQueryLayer,
    f: SparseFunction,
    cells: list[_Cell],
    threshold: float,
) -> list[_Cell]:
    """The cells with their margins and places, in groups with equally many fixed positions."""
    tables = layer.tables
    width = 2 * tables.T * max(len(tables.W_O.mid), len(layer.b_in))
    size = max(1, NUMBERS // width)
    found: list[_Cell] = []
    for number in sorted({len(cell.fixed) for cell in cells}):
        alike = [cell for cell in cells if len(cell.fixed) == number]
        for start in range(0, len(alike), size):
            found += _group(layer, f, alike[start : start + size], threshold)
    return found


def _group(
    layer: OneQueryLayer,
    f: SparseFunction,
    cells: list[_Cell],
    threshold: float,
) -> list[_Cell]:
    fixed = np.array([c.fixed for c in cells], np.int64).reshape(len(cells), -1)
    rows, first, last = np.array([(c.row, c.first, c.last) for c in cells]).T
    sets = HeadSets(layer.tables, Cells(fixed, rows, first, last))
    found = enclose(layer, sets)
    ones = f.table[rows & ((1 << f.s) - 1)] > 0.5
    margins = np.where(ones, found.low - threshold, threshold - found.high)
    places = _best_cuts(sets)
    return [
        replace(cell, margin=float(margin), place=int(place))
        for cell, margin, place in zip(cells, margins, places, strict=True)
    ]


def _best_cuts(sets: HeadSets) -> np.ndarray:
    """Where to cut each cell: a position, AT_COUNT, or NOWHERE."""
    cells, part, W_O = sets.cells, sets.linear, sets.tables.W_O.mid
    R, F = sets.free.shape
    if F == 0:
        return np.full(R, NOWHERE)
    H, k = sets.centre.shape[1:]
    gain = np.swapaxes(part.moves[..., 1] - part.moves[..., 0], 1, 2) @ W_O  # [R, F, d]
    length = np.sqrt((W_O * W_O).sum(1))
    left = np.sqrt(((part.rest * length) ** 2).reshape(R, H, k).sum(2))  # [R, H]
    low, high = sets.denominators
    weights = sets.fillers[0].mid
    change = weights[..., 1] - weights[..., 0]  # [R, H, F]
    spread = np.maximum(high - low, TINY)[:, :, None]
    single = np.sqrt((gain * gain).sum(2))
    single = single + (left[:, :, None] * np.minimum(1.0, np.abs(change) / spread)).sum(1)
    half = (cells.last - cells.first) / 2
    joint = half * np.sqrt((gain.mean(1) ** 2).sum(1))
    moved = half[:, None] * np.abs(change.mean(2)) / spread[:, :, 0]
    joint = joint + (left * np.minimum(1.0, moved)).sum(1)
    best = single.argmax(1)
    places = sets.free[np.arange(R), best]
    if cells.fixed.shape[1] >= MAX_FIXED:
        places = np.full(R, NOWHERE)
    countable = (half > 0) & ((joint >= single.max(1)) | (places == NOWHERE))
    return np.where(countable, AT_COUNT, places)
