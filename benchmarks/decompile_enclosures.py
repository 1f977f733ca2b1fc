"""A million inputs per model against the enclosures of its logit: none may lie outside.

Half follow the data's distribution, a quarter has a random density of ones each, the others are
met on searches that push the logit up and down at every pattern. Beside the cells of all fillers,
random smaller cells (fixed fillers, an interval of ones) are tried with inputs of their own.
"""

import numpy as np

from capax.decompile.proof.enclosure import enclose
from capax.decompile.proof.head_sets import Cells, HeadSets
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.table_forward import TableForward

BLOCK = 10_000
SMALL_CELLS, IN_SMALL = 64, 1000


class Guard:
    """Counts inputs, and those whose logit lies outside of the enclosure of their cell."""

    def __init__(self, forward, low, high):
        self.forward, self.low, self.high = forward, low, high
        self.inputs, self.outside, self.nearest = 0, 0, np.inf

    def check(self, z, cell):
        gap = np.minimum(z - self.low[cell], self.high[cell] - z)
        self.inputs += len(z)
        self.outside += int((gap < 0).sum())
        self.nearest = min(self.nearest, float(gap.min()))


def attack_enclosures(model, task, inputs):
    """(inputs tried, outside, smallest distance from an end), over all cells of one model."""
    layer, support = one_query_layer(model), tuple(sorted(task.target.support))
    forward, rng = TableForward(layer), np.random.default_rng(task.seed)
    rows = np.arange(1 << len(support))
    every = Cells.at(support, rows, 0 * rows, 0 * rows + task.T - len(support))
    found = enclose(layer, HeadSets(layer.tables, every))
    guard = Guard(forward, found.low, found.high)
    while guard.inputs < 3 * inputs // 4:
        wide = guard.inputs >= inputs // 2
        density = rng.random((BLOCK, 1)) if wide else task.probability
        X = (rng.random((BLOCK, task.T)) < density).astype(np.int64)
        guard.check(forward.logits(forward.sums(X)), pattern(X, support))
    while guard.inputs < inputs:
        for row in rows:
            for sign in (-1.0, 1.0):
                climb(guard, task, support, row, sign, rng)
    small = small_cells(layer, task, support, rng)
    return guard.inputs + small[0], guard.outside + small[1], min(guard.nearest, small[2])


def pattern(X, places):
    """The pattern of each input at some positions, as a number."""
    return sum(X[:, t] << i for i, t in enumerate(places))


def climb(guard, task, support, row, sign, rng, steps=30):
    """From a random filler, flips that move the logit most; every input on the way is checked."""
    forward, free = guard.forward, np.delete(np.arange(task.T), support)
    x = (rng.random(task.T) < rng.random()).astype(np.int64)
    x[list(support)] = row >> np.arange(len(support)) & 1
    sums = forward.sums(x[None])[0]
    now = sign * forward.logits(sums[None])[0]
    for _ in range(steps):
        moved = forward.flips(sums, x, free)
        z = forward.logits(moved)
        guard.check(z, np.full(len(z), row))
        best = int((sign * z).argmax())
        if sign * z[best] <= now:
            return
        x[free[best]] ^= 1
        sums, now = moved[best], sign * z[best]


def small_cells(layer, task, support, rng):
    """The same for random cells with fixed fillers and an interval of ones."""
    forward, inputs, outside, nearest = TableForward(layer), 0, 0, np.inf
    for _ in range(SMALL_CELLS):
        free = np.delete(np.arange(task.T), support)
        fixed = (*support, *rng.choice(free, rng.integers(0, 6), replace=False).tolist())
        F = task.T - len(fixed)
        first, last = sorted(rng.integers(0, F + 1, 2).tolist())
        row = int(rng.integers(1 << len(fixed)))
        cell = Cells.at(fixed, np.array([row]), np.array([first]), np.array([last]))
        found = enclose(layer, HeadSets(layer.tables, cell))
        guard = Guard(forward, found.low, found.high)
        ones = rng.integers(first, last + 1, IN_SMALL)
        ones[:2] = first, last
        order = rng.random((IN_SMALL, F)).argsort(1).argsort(1)
        X = np.empty((IN_SMALL, task.T), np.int64)
        X[:, np.delete(np.arange(task.T), fixed)] = order < ones[:, None]
        X[:, list(fixed)] = row >> np.arange(len(fixed)) & 1
        guard.check(forward.logits(forward.sums(X)), np.zeros(IN_SMALL, np.int64))
        inputs, outside = inputs + guard.inputs, outside + guard.outside
        nearest = min(nearest, guard.nearest)
    return inputs, outside, nearest
