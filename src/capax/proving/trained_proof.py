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
from capax.compiler.certificate.certificate import table_text
from capax.decompile.decompiling import Effort, decompile
from capax.decompile.proof.cell_forms import CellBound, FloatCell, ReadOut
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.errors import InputError, require
from capax.proving import capax_check
from capax.proving.compiled_proof import Proof

BITS = 80
CELLS = 400
DECIDED = 1e-7
"""A cell is decided in float64 where its margin is proved up to rounding, with this to spare."""
SHARES = (0.95, 0.8, 0.5, 0.1)
EASES = (1.0, 0.8, 0.3)


@dataclass
class CellTree:
    """A cell, its bound, and where it is cut: ["bit", t], ["ones", n] or ["head", i, level]."""

    bound: CellBound
    cut: list[Any] | None = None
    parts: list["CellTree"] = field(default_factory=list)

    def leaves(self) -> "list[CellTree]":
        """The cells that are not cut."""
        return [leaf for part in self.parts for leaf in part.leaves()] if self.parts else [self]

    def lines(self) -> list[dict[str, Any]]:
        """Its line, then those of its parts."""
        if not self.parts:
            return [_hints(self.bound)]
        return [{"cut": self.cut}, *(line for part in self.parts for line in part.lines())]


def _hints(bound: CellBound) -> dict[str, Any]:
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
        best = -np.inf
        for cut in candidates(node.bound):
            cells, sign = cut_cells(node.bound, cut), node.bound.sign
            parts = [self.bound(cell, sign, around=node.bound) for cell in cells]
            score = sum(min(part.least, DECIDED) for part in parts)
            if score > best:
                best, node.cut = score, cut
                node.parts = [CellTree(part) for part in parts]


def candidates(bound: CellBound) -> list[list[Any]]:
    """Cuts that may help: two heads, the number of ones (once), the position of most influence."""
    cell, read = bound.cell, bound.read
    blame, F = bound.influence(), len(bound.cell.free)
    ends = cell.ends(cell.form(np.append(np.tile([0.0, 1.0], cell.T), 0.0)[:, None]))
    found: list[list[Any]] = [["bit", int(cell.free[int(np.argmax(blame[:F]))])]]
    low, high = int(np.ceil(ends[0][0] - 1e-9)), int(np.floor(ends[1][0] + 1e-9))
    if high > low and not cell.given:
        found.append(["ones", (low + high) // 2])
    leaks, heads = blame[F:], set[int]()
    for i in np.argsort(-leaks)[: 4 * read.k]:
        if i // read.k not in heads and len(heads) < 2 and bound.high[i] - bound.low[i] > 1e-6:
            heads.add(int(i) // read.k)
            level = float(f"{(bound.low[i] + bound.high[i]) / 2:.6g}")
            found.append(["head", int(i), level])
    return found


def cut_cells(bound: CellBound, cut: list[Any]) -> list[FloatCell]:
    """The two parts, as the checker makes them: the first part first."""
    cell, T = bound.cell, bound.cell.T
    if cut[0] == "bit":
        return [FloatCell(T, cell.fixed | {cut[1]: b}, cell.given) for b in (0, 1)]
    if cut[0] == "ones":
        ones = np.append(np.tile([0.0, 1.0], T), 0.0)
        last = np.zeros(2 * T + 1)
        last[-1] = 1.0
        limits = [ones - cut[1] * last, (cut[1] + 1) * last - ones]
    else:
        terms = bound.read.w[:, cut[1]] * (bound.read.v[:, cut[1]] - cut[2])
        limits = [terms, -terms]
    return [FloatCell(T, cell.fixed, (*cell.given, limit)) for limit in limits]


def prove_trained(
    weights: Path | str, f: SparseFunction | None = None, *, cells: int = CELLS
) -> Proof:
    """The proof that a one-layer Transformer decides as f on all inputs.

    f: the function; without it, the one that `capax.decompile` reads off the network. Raises
    `InputError` for a network without a proof: another kind of network, a wrong function, or one
    that takes more than so many cells.
    """
    text = trained_text(weights, f, cells)
    data, refused = Path(weights).read_bytes(), None
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
    margin = _margin(search, [leaf for tree in trees for leaf in tree.leaves()])
    return _text(Path(weights).read_bytes(), f, trees, margin, T)


def _margin(search: TreeSearch, leaves: list[CellTree]) -> float:
    """The largest of a few margins that all leaves keep."""
    least = min(leaf.bound.least for leaf in leaves)
    for share in SHARES:
        margin = float(f"{share * least:.3g}")
        cells = [leaf.bound for leaf in leaves if share * leaf.bound.least < 2 * least]
        if all(search.bound(b.cell, b.sign, margin, b).least > DECIDED for b in cells):
            return margin
    return float(f"{DECIDED / 2:.3g}")


def _text(data: bytes, f: SparseFunction, trees: list[CellTree], margin: float, T: int) -> str:
    """The proof as text."""
    header = {
        "proof": capax_check.VERSION, "weights": hashlib.sha256(data).hexdigest(), "T": T,
        "support": list(f.support), "table": table_text(f), "margin": repr(margin),
        "error": None, "bits": BITS,
    }  # fmt: skip
    lines = [header, *(line for tree in trees for line in tree.lines())]
    return "\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\n"
