"""The proof file of a trained network: a tree of cells, and hints at its leaves.

Cells are cut until the bound of every cell decides in plain float64 (`cell_forms`). The checker
then evaluates every leaf in integers: a file that it refuses is never written.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from capax.attention.checkpoint import load
from capax.attention.transformer import Transformer
from capax.boolean import SparseFunction
from capax.compiler.proof.certificate import table_text
from capax.decompile.decompiling import Effort, decompile
from capax.decompile.proof.cell_forms import AT_COUNT, NOWHERE, CellHints, ReadOut, cell_hints
from capax.decompile.proof.head_sets import Cells, HeadSets
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.errors import InputError, require
from capax.proving import capax_check
from capax.proving.compiled_proof import Proof

NUMBERS = 1 << 21
"""Numbers per array: cells are bounded in groups of at most this size."""
BITS = 64
CELLS = 4096
DECIDED = 1e-7
"""A cell is decided in float64 where its margin is proved up to rounding, with this to spare."""
SHARES = (0.95, 0.8, 0.5, 0.1)
EASES = (1.0, 0.8, 0.3)


@dataclass
class CellTree:
    """A cell of the tree: fixed positions and their bits, and an interval for the other ones."""

    fixed: tuple[int, ...]
    row: int
    first: int
    last: int
    line: dict[str, Any] | None = None
    least: float = -np.inf
    parts: list["CellTree"] = field(default_factory=list)

    def cut(self, place: int, T: int) -> "list[CellTree]":
        """Cut at a position or by the number of ones; parts without any input are left out."""
        s = len(self.fixed)
        if place == AT_COUNT:
            middle = (self.first + self.last) // 2
            self.line = {"ones": middle}
            ends = (self.first, middle), (middle + 1, self.last)
            self.parts = [CellTree(self.fixed, self.row, *pair) for pair in ends]
            return self.parts
        fixed = (*self.fixed, place)
        self.line = {"cut": place}
        zero = CellTree(fixed, self.row, self.first, min(self.last, T - s - 1))
        one = CellTree(fixed, self.row | 1 << s, max(self.first - 1, 0), self.last - 1)
        self.parts = [part for part in (zero, one) if part.first <= part.last]
        return self.parts

    def leaves(self) -> "list[CellTree]":
        """The cells that are not cut."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]

    def lines(self) -> list[dict[str, Any]]:
        """Its lines, then those of its parts."""
        assert self.line is not None
        return [self.line, *(line for part in self.parts for line in part.lines())]


@dataclass
class TreeSearch:
    """The trees of all patterns of the support; at most about `most` cells are bounded."""

    read: ReadOut
    f: SparseFunction
    most: int = CELLS
    margin: float = 0.0
    bounded: int = 0

    def trees(self) -> list[CellTree] | None:
        """One for each pattern, with hints at every leaf; None where the budget was spent."""
        T = self.read.layer.tables.T
        roots = [CellTree(self.f.support, row, 0, T - self.f.s) for row in range(1 << self.f.s)]
        todo = list(roots)
        while todo:
            self.bounded += len(todo)
            left = self.decide(todo)
            if any(place == NOWHERE for _, place in left):
                return None
            if self.bounded + 2 * len(left) > self.most:
                return None
            todo = [part for node, place in left for part in node.cut(place, T)]
        return roots

    def decide(self, nodes: list[CellTree]) -> list[tuple[CellTree, int]]:
        """Hints for the nodes that are decided; the others, and where to cut them."""
        tables = self.read.layer.tables
        size = max(1, NUMBERS // (2 * tables.T * max(len(tables.W_O.mid), len(self.read.shift))))
        left = []
        for number in sorted({len(node.fixed) for node in nodes}):
            alike = [node for node in nodes if len(node.fixed) == number]
            for start in range(0, len(alike), size):
                left += self._group(alike[start : start + size])
        return left

    def _group(self, nodes: list[CellTree]) -> list[tuple[CellTree, int]]:
        fixed = np.array([n.fixed for n in nodes], np.int64).reshape(len(nodes), -1)
        rows, first, last = np.array([(n.row, n.first, n.last) for n in nodes]).T
        sets = HeadSets(self.read.layer.tables, Cells(fixed, rows, first, last))
        ones = self.f.table[rows & ((1 << self.f.s) - 1)] > 0.5
        with np.errstate(all="ignore"):
            found = cell_hints(self.read, sets, np.where(ones, 1.0, -1.0), self.margin)
        for i, node in enumerate(nodes):
            node.least = float(found.least[i])
            if node.least > DECIDED:
                node.line = _hints(found, i)
        return [(n, int(p)) for n, p in zip(nodes, found.places, strict=True) if n.least <= DECIDED]


def _hints(found: CellHints, i: int) -> dict[str, Any]:
    """The line of a leaf; `far` is rounded up."""
    return {
        "u": found.u[i].tolist(),
        "far": [float(f"{n * (1 + 1e-6):.7g}") for n in found.far[i]],
        "D": [float(f"{n:.7g}") for n in found.D[i]],
        "slopes": [int(n) for n in found.slopes[i]],
        "z": found.z[i].tolist(),
    }


def prove_trained(
    weights: Path | str, f: SparseFunction | None = None, *, cells: int = CELLS
) -> Proof:
    """The proof that a one-layer Transformer decides as f on all inputs.

    f: the function; without it, the one that `capax.decompile` reads off the network. Raises
    `InputError` for a network without a proof: another kind of network, a wrong function, or one
    that takes more than so many cells.
    """
    data = Path(weights).read_bytes()
    text = trained_text(weights, f, cells)
    refused = None
    for ease in EASES:  # the checker rounds more than float64 does: a little less is stated
        try:
            eased = with_margin(text, ease)
            return Proof(eased, capax_check.check(eased, data))
        except capax_check.Refused as refusal:
            refused = refusal
    raise InputError(f"{weights}: the proof is refused by its checker: {refused}")


def with_margin(text: str, share: float) -> str:
    """The same proof with a share of its margin."""
    header, lines = text.split("\n", 1)
    stated = json.loads(header)
    stated["margin"] = repr(float(f"{share * float(stated['margin']):.3g}"))
    return json.dumps(stated, separators=(",", ":")) + "\n" + lines


def trained_text(weights: Path | str, f: SparseFunction | None, cells: int = CELLS) -> str:
    """The text of the proof, before the checker has seen it."""
    model = load(weights)[0]
    require(isinstance(model, Transformer), str(weights), "a Transformer", type(model).__name__)
    read = ReadOut(one_query_layer(model))  # type: ignore[arg-type]
    plain = model.spec.layer_norm and model.spec.alphabet == 2  # type: ignore[attr-defined]
    require(plain, str(weights), "a Transformer on bits with LayerNorm", "another one")
    if f is None:
        f = decompile(model, effort=Effort(cells=0)).function
    T = read.layer.tables.T
    require(f.T in (None, T), "function", f"a function of {T} bits", f.T)
    search = TreeSearch(read, f, cells)
    trees = search.trees()
    if trees is None:
        told = f"{search.bounded} cells did not decide"
        raise InputError(f"{weights}: wanted a network that is proved to decide as f, got: {told}")
    search.margin = _margin(search, [leaf for tree in trees for leaf in tree.leaves()])
    return _text(Path(weights).read_bytes(), f, trees, search.margin, T)


def _margin(search: TreeSearch, leaves: list[CellTree]) -> float:
    """The largest of a few margins that all leaves keep."""
    least = min(leaf.least for leaf in leaves)
    for share in SHARES:
        search.margin = float(f"{share * least:.3g}")
        if not search.decide(leaves):
            return search.margin
    search.margin = float(f"{DECIDED / 2:.3g}")
    search.decide(leaves)
    return search.margin


def _text(data: bytes, f: SparseFunction, trees: list[CellTree], margin: float, T: int) -> str:
    """The proof as text."""
    header = {
        "proof": capax_check.VERSION, "weights": hashlib.sha256(data).hexdigest(), "T": T,
        "support": list(f.support), "table": table_text(f), "margin": repr(margin),
        "error": None, "bits": BITS,
    }  # fmt: skip
    lines = [header, *(line for tree in trees for line in tree.lines())]
    return "\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n"
