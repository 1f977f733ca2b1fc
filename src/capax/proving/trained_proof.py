"""The proof file of a trained network: a tree of cells, and hints at its leaves.

Cells are cut until the bound of every cell decides in plain float64 (`cell_forms`). The checker
then evaluates every leaf in integers: a file that it refuses is never written.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from capax.attention.checkpoint import load
from capax.attention.transformer import Transformer
from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import table_text
from capax.decompile.decompiling import Effort, decompile
from capax.decompile.proof.cell_forms import ReadOut
from capax.decompile.proof.counterexample import search
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.table_forward import TableForward
from capax.errors import InputError, require
from capax.proving import capax_check
from capax.proving.cell_search import CELLS, DECIDED, CellTree, TreeSearch
from capax.proving.compiled_proof import Proof

BITS = 80
SHARES = (0.95, 0.8, 0.5, 0.1)
EASES = (1.0, 0.8, 0.3)
ONES = (0.5, 0.1, 0.9)
"""Shares of ones at which the search for a wrong input starts."""


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
    forward, rng = TableForward(read.layer), np.random.default_rng(0)
    wrong = min((search(forward, f, rng, p=p) for p in ONES), key=lambda found: found.margin)
    trees, told = None, f"another decision where the ones are {np.flatnonzero(wrong.bits).tolist()}"
    if wrong.margin > 0:
        tree_search = TreeSearch(read, f, cells)
        trees, told = tree_search.trees(), f"{tree_search.bounded} cells did not decide"
    if trees is None:
        raise InputError(f"{weights}: wanted a network that is proved to decide as f, got: {told}")
    margin = _margin([leaf for tree in trees for leaf in tree.leaves()])
    return _text(Path(weights).read_bytes(), f, trees, margin, T)


def _margin(leaves: list[CellTree]) -> float:
    """The largest of a few margins that all leaves keep."""
    least = min(leaf.bound.least for leaf in leaves)
    for share in SHARES:
        margin = float(f"{share * least:.3g}")
        near = [leaf.bound for leaf in leaves if share * leaf.bound.least < 2 * least]
        if all(bound.with_margin(margin).least > DECIDED for bound in near):
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
