"""All inputs, cut into cells until the enclosure of every cell decides, or the budget is spent.

A cell is cut where its enclosure is loose: at a filler that moves a normaliser much when it is
flipped (then it becomes a fixed position, 0 in one half and 1 in the other), else at the middle of
its interval for the number of ones.
"""

from dataclasses import dataclass

import numpy as np

from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.decompile.balls import ETA
from capax.decompile.enclosure import enclose
from capax.decompile.head_sets import Cells, HeadSets
from capax.decompile.head_tables import HeadTables

NUMBERS = 1 << 21
"""Numbers per array: cells are enclosed in groups of at most this size."""
HEAVY, LIGHT = 0.25, 0.02
"""A filler is fixed first if it moves a normaliser by this share; below the other one, never."""
MAX_FIXED = 30


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

    def proved_share(self, p: float) -> float:
        """Probability of the proved cells when bits are independent Bernoulli(p)."""
        if (self.margins > 0).all():
            return 1.0
        from scipy.stats import binom

        free = self.T - self.s - self.fixed
        ones = np.bitwise_count(self.rows) + self.fixed_ones
        pattern = p**ones * (1 - p) ** (self.s + self.fixed - ones)
        inside = binom.cdf(self.last, free, p) - binom.cdf(self.first - 1, free, p)
        return float(min(1.0, (pattern * inside)[self.margins > 0].sum()))

    def proved_ones(self, p: float) -> tuple[tuple[int, int] | None, float]:
        """The most probable interval of counts of ones among all fillers that is proved whole."""
        from scipy.stats import binom

        F = self.T - self.s
        good = np.ones(F + 1, bool)
        for i in np.flatnonzero(self.margins <= 0):
            good[self.first[i] + self.fixed_ones[i] : self.last[i] + self.fixed_ones[i] + 1] = False
        edges = np.diff(np.concatenate([[0], good.astype(int), [0]]))
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        if not len(starts):
            return None, 0.0
        shares = binom.cdf(ends, F, p) - binom.cdf(starts - 1, F, p)
        best = int(np.argmax(shares))
        return (int(starts[best]), int(ends[best])), float(min(1.0, shares[best]))


def branch(
    model: Transformer,
    tables: HeadTables,
    f: SparseFunction,
    *,
    threshold: float = 0.0,
    most: int = 1024,
) -> Leaves:
    """Cells that cover all inputs, with certified margins; at most about `most` are enclosed."""
    rows = np.arange(1 << f.s)
    todo = Cells(f.support, rows, np.zeros_like(rows), np.full_like(rows, tables.T - f.s))
    done: list[tuple[Cells, np.ndarray]] = []
    enclosed = 0
    while len(todo):
        margins = _margins(model, tables, f, todo, threshold)
        enclosed += len(todo)
        undecided = margins <= 0
        halves = None
        if undecided.any() and enclosed + 2 * undecided.sum() <= max(most, 3 << f.s):
            halves = _cut(tables, todo.part(undecided))
        if halves is None:
            done.append((todo, margins))
            break
        pieces, cut = halves
        kept = np.ones(len(todo), bool)
        kept[np.flatnonzero(undecided)[cut]] = False  # what cannot be cut stays undecided
        done.append((todo.part(kept), margins[kept]))
        todo = pieces
    return _leaves(done, f, tables.T, enclosed)


def _leaves(
    done: list[tuple[Cells, np.ndarray]], f: SparseFunction, T: int, enclosed: int
) -> Leaves:
    mask = (1 << f.s) - 1
    return Leaves(
        f.s,
        T,
        np.concatenate([c.rows & mask for c, _ in done]),
        np.concatenate([np.bitwise_count(c.rows >> f.s).astype(np.int64) for c, _ in done]),
        np.concatenate([np.full(len(c), len(c.fixed) - f.s) for c, _ in done]),
        np.concatenate([c.first for c, _ in done]),
        np.concatenate([c.last for c, _ in done]),
        np.concatenate([m for _, m in done]),
        enclosed,
    )


def _margins(
    model: Transformer, tables: HeadTables, f: SparseFunction, cells: Cells, threshold: float
) -> np.ndarray:
    width = 2 * tables.T * max(len(tables.W_O.mid), model.spec.mlp_width)
    size = max(1, NUMBERS // width)
    parts = []
    for start in range(0, len(cells), size):
        some = cells.part(np.arange(start, min(start + size, len(cells))))
        found = enclose(model, HeadSets(tables, some))
        ones = f.table[some.rows & ((1 << f.s) - 1)] > 0.5
        parts.append(np.where(ones, found.low - threshold, threshold - found.high))
    return np.concatenate(parts)


def _cut(tables: HeadTables, cells: Cells) -> tuple[Cells, np.ndarray] | None:
    """The pieces of the cells, and which cells were cut; None where nothing can be."""
    sets = HeadSets(tables, cells)
    low, _ = sets.denominators  # [R, H]
    w = tables.weights.mid[:, sets.free]  # [H, F, 2]
    change = np.abs(w[:, :, 1] - w[:, :, 0])
    weight = (
        (change / np.maximum(low.min(0), ETA)[:, None]).max(0) if len(sets.free) else np.zeros(0)
    )
    heaviest = float(weight.max(initial=0.0))
    countable = cells.last > cells.first
    room = len(cells.fixed) < MAX_FIXED
    place = int(sets.free[weight.argmax()]) if len(sets.free) else -1
    if room and (heaviest > HEAVY or (heaviest > LIGHT and not countable.any())):
        return _at_position(cells, place, len(sets.free)), np.ones(len(cells), bool)
    if not countable.any():
        return None
    return _at_count(cells.part(countable)), countable


def _at_count(cells: Cells) -> Cells:
    middle = (cells.first + cells.last) // 2
    return Cells(
        cells.fixed,
        np.concatenate([cells.rows, cells.rows]),
        np.concatenate([cells.first, middle + 1]),
        np.concatenate([middle, cells.last]),
    )


def _at_position(cells: Cells, t: int, F: int) -> Cells:
    """Position t of F fillers becomes fixed, 0 or 1; pieces without any input are dropped."""
    s = len(cells.fixed)
    rows = np.concatenate([cells.rows, cells.rows | (1 << s)])
    first = np.concatenate([cells.first, np.maximum(cells.first - 1, 0)])
    last = np.concatenate([np.minimum(cells.last, F - 1), cells.last - 1])
    return Cells((*cells.fixed, t), rows, first, last).part(first <= last)
