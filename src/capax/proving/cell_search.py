"""All inputs cut into cells until the bound of every cell decides: how a proof is found.

A cut is chosen by trying: the one whose parts miss the least together. Heads that look for a zero
find it, where the bits that matter have none, at few fillers: cuts at bits make a chain, "the first
of these that is 0". Heads that follow the number of ones are cut by it; the others by their output.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capax.boolean import SparseFunction
from capax.decompile.proof.cell_forms import CellBound, ReadOut
from capax.decompile.proof.float_cell import FloatCell

CELLS = 4000
DECIDED = 1e-7
"""A cell is decided in float64 where its margin is proved up to rounding, with this to spare."""
LEVELS = (0.3, 0.5, 0.75)
"""Where the range of the number of ones is cut."""
NEAR = 3.0
"""A part that misses more is not tuned to see whether it is decided."""
FEW = 6
"""With so few free bits only bits are cut: the tree ends."""
SHARP = 1.3
"""A kind of cut is tried again in the parts if it missed at most this multiple of the best."""
Cut = list[Any]


@dataclass
class CellTree:
    """A cell, its bound, and where it is cut: ["bit", t], ["ones", n] or ["head", i, level].

    `kinds`: those that are worth a try.
    """

    bound: CellBound
    cut: Cut | None = None
    kinds: frozenset[str] = frozenset({"bit", "ones", "head"})
    parts: list["CellTree"] = field(default_factory=list)

    def leaves(self) -> "list[CellTree]":
        """The cells that are not cut."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]

    def lines(self) -> list[dict[str, Any]]:
        """Its line, then those of its parts."""
        if not self.parts:
            return [hints(self.bound)]
        return [{"cut": self.cut}, *(line for part in self.parts for line in part.lines())]


def hints(bound: CellBound) -> dict[str, Any]:
    """The line of a leaf; `far` is rounded up."""
    return {
        "u": bound.u.tolist(),
        "far": [float(f"{n * (1 + 1e-6):.7g}") for n in bound.far],
        "D": [float(f"{n:.7g}") for n in bound.D],
    }


@dataclass
class TreeSearch:
    """The trees of all patterns of the support; at most about `most` cells are bounded."""

    read: ReadOut
    f: SparseFunction
    most: int = CELLS
    bounded: int = 0

    def trees(self) -> list[CellTree] | None:
        """One for each pattern; None where the budget was spent."""
        roots = [
            CellTree(self.bound(self.root(row), self.sign(row))) for row in range(1 << self.f.s)
        ]
        todo = list(roots)
        while todo:
            node = todo.pop()
            node.bound.tune(DECIDED)
            if node.bound.least > DECIDED:
                continue
            if self.bounded > self.most or not len(node.bound.cell.free):
                return None
            self.split(node)
            todo += node.parts
        return roots

    def root(self, row: int) -> FloatCell:
        """The cell of a pattern."""
        return FloatCell(self.T, {t: row >> i & 1 for i, t in enumerate(self.f.support)})

    def sign(self, row: int) -> float:
        """+1 where the logit should be positive."""
        return 1.0 if self.f.table[row] > 0.5 else -1.0

    @property
    def T(self) -> int:
        return self.read.layer.tables.T

    def bound(
        self, cell: FloatCell, sign: float, margin: float = 0.0, around: CellBound | None = None
    ) -> CellBound:
        """The bound of a cell, counted."""
        self.bounded += 1
        return CellBound(self.read, cell, sign, margin, around)

    def split(self, node: CellTree) -> None:
        """The best of a few cuts: the one whose parts miss the least together."""
        few = len(node.bound.cell.free) <= FEW
        if not few and self.split_at_a_set(node):
            return
        tried = frozenset({"bit"}) if few else node.kinds
        found = [self.tried(node, cut) for cut in candidates(node.bound, tried)]
        least = min(missed for missed, _, _ in found)
        kinds = {cut[0] for missed, cut, _ in found if missed <= SHARP * least + 1e-9}
        _, node.cut, bounds = min(found, key=lambda one: one[0])
        node.parts = [CellTree(bound, kinds=frozenset(kinds)) for bound in bounds]

    def split_at_a_set(self, node: CellTree) -> bool:
        """Cut by "all of these bits have no weight", many of them, if the other part is decided.

        The other part, "one of them has", is decided for the first so many: doubled, then halved.
        """
        places, light = heavy(node.bound)
        least, most, kept = 1, len(places) + 1, None
        while most - least > max(1, least // 6):
            size = min(2 * least, (least + most) // 2)
            cut = ["all", sorted(places[:size]), light]
            part = self.bound(cut_cells(node.bound, cut)[1], node.bound.sign, around=node.bound)
            if part.missing < NEAR:
                part.tune(DECIDED)
            if part.least > DECIDED:
                least, kept = size, (cut, part)
            else:
                most = size
        if kept is None:
            return False
        node.cut, part = kept
        rest = self.bound(cut_cells(node.bound, node.cut)[0], node.bound.sign, around=node.bound)
        node.parts = [CellTree(rest), CellTree(part)]
        return True

    def tried(self, node: CellTree, cut: Cut) -> tuple[float, Cut, list[CellBound]]:
        """What the parts of a cut miss together, the cut, and their bounds."""
        sign = node.bound.sign
        parts = [self.bound(cell, sign, around=node.bound) for cell in cut_cells(node.bound, cut)]
        missed = sum((float(np.log1p(b.missing)) for b in parts if b.least <= DECIDED), 0.0)
        return missed, cut, parts


def candidates(bound: CellBound, kinds: frozenset[str] = CellTree.kinds) -> list[Cut]:
    """Cuts that may help: bits of influence, numbers of ones, outputs of two heads."""
    cell, k, F = bound.cell, bound.read.k, len(bound.cell.free)
    blame = bound.influence()
    leaks = blame[F:]
    heads = np.argsort(-leaks.reshape(-1, k).sum(1), kind="stable")
    first, last = cell.ones
    found: list[Cut] = []
    if "bit" in kinds or first >= last:
        gains = np.abs(bound.read.w[2 * cell.free + 1] - bound.read.w[2 * cell.free])[:, ::k]
        places = [*np.argsort(-blame[:F])[:2], *gains[:, heads[:3]].argmax(0)]
        found += [["bit", int(cell.free[i])] for i in dict.fromkeys(places)]
    if "ones" in kinds and first < last:
        levels = dict.fromkeys(int(first + (last - first) * share) for share in LEVELS)
        found += [["ones", level] for level in levels]
    for h in heads[:2] if "head" in kinds else ():
        i = int(h) * k + int(np.argmax(leaks[h * k : (h + 1) * k]))
        if bound.high[i] - bound.low[i] > 1e-6:
            found.append(["head", i, float(f"{(bound.low[i] + bound.high[i]) / 2:.6g}")])
    return found or candidates(bound, frozenset({"bit"}))


def heavy(bound: CellBound) -> tuple[list[int], int]:
    """Free positions by the weight that they add to heads with noise, and the bit without it."""
    cell, read = bound.cell, bound.read
    weights = read.w[:, :: read.k]
    gains = weights[2 * cell.free] - weights[2 * cell.free + 1]
    size = (bound.noise * np.linalg.norm(read.C_O, axis=1)).reshape(-1, read.k).sum(1)
    effect = (np.sign(gains) * np.log1p(np.abs(gains) / np.maximum(bound.D_low, 1e-300))) @ size
    light = int(effect.sum() > 0)
    effect = effect if light else -effect
    order = np.argsort(-effect)[: int((effect > 0).sum())]
    return cell.free[order].tolist(), light


def cut_cells(bound: CellBound, cut: Cut) -> list[FloatCell]:
    """The two parts, as the checker makes them: the first part first."""
    cell, T = bound.cell, bound.cell.T
    if cut[0] == "bit":
        both = [cell.fixed | {cut[1]: b} for b in (0, 1)]
        return [FloatCell(T, fixed, cell.given, cell.counted) for fixed in both]
    counted = [cell.counted, cell.counted]
    if cut[0] == "all":
        terms = np.zeros(2 * T + 1)
        terms[[2 * t + cut[2] for t in cut[1]]], terms[-1] = 1.0, 1 - len(cut[1])
        return [
            FloatCell(T, cell.fixed | dict.fromkeys(cut[1], cut[2]), cell.given, cell.counted),
            FloatCell(T, cell.fixed, (*cell.given, terms), cell.counted),
        ]
    if cut[0] == "ones":
        ones = np.append(np.tile([0.0, 1.0], T), 0.0)
        last = np.zeros(2 * T + 1)
        last[-1] = 1.0
        counted = [(cell.ones[0], cut[1]), (cut[1] + 1, cell.ones[1])]
        limits = [ones - cut[1] * last, (cut[1] + 1) * last - ones]
    else:
        terms = bound.read.w[:, cut[1]] * (bound.read.v[:, cut[1]] - cut[2])
        limits = [terms, -terms]
    return [
        FloatCell(T, cell.fixed, (*cell.given, limit), span)
        for limit, span in zip(limits, counted, strict=True)
    ]
