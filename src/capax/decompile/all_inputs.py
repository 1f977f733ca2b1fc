"""Does the formula hold on all 2^T inputs? Proved, refuted with an input, or open with the gap.

One-layer Transformers: the logit is enclosed over every pattern of the support and all fillers
(`enclosure`); a cell whose enclosure does not decide is cut (`branching`). What remains undecided
at the end is open, and the probability of what was proved is exact: the number of ones among
fillers is binomial. A search for a counterexample runs first; what it finds is
confirmed on the model. Compiled networks: the certified range of their head. Everything else can
only be queried, and stays open.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from capax.attention.collapse import why_not
from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.decompile.counterexample import search
from capax.decompile.branching import branch
from capax.decompile.head_tables import head_tables
from capax.decompile.oracle import Oracle
from capax.decompile.table_forward import TableForward

Status = Literal["proved", "refuted", "open"]
MANY, FEW = 1024, 256
"""Cells that are enclosed at most; fewer where the formula is refuted anyway."""


@dataclass(frozen=True)
class AllInputs:
    """The verdict over all inputs.

    `margin`: certified lower bound of the distance of the logit from the threshold on the right
    side over all inputs (negative: the gap that is open). `found_margin`: the smallest that a
    search met (None: no search). `proved_share`: probability under the data distribution of the
    inputs on which the formula is proved. `ones`: for the largest such interval, the formula is
    proved for every pattern and all fillers with so many ones; `ones_share` its probability.
    """

    status: Status
    margin: float | None
    found_margin: float | None
    counterexample: tuple[int, ...] | None
    proved_share: float
    ones: tuple[int, int] | None
    ones_share: float
    method: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        content = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}


def on_all_inputs(
    model: Oracle, f: SparseFunction, rng: np.random.Generator, *, p: float
) -> AllInputs:
    """Prove, refute or leave open that `model` decides as f on all 2^T inputs."""
    known = model.model
    if isinstance(known, Transformer):
        reason = why_not(known.spec)
        if reason is None:
            return _one_layer(model, known, f, rng, p)
        return _unknown(f"not provable here: {reason}")
    return _unknown("asked by queries alone")


def _unknown(method: str) -> AllInputs:
    return AllInputs("open", None, None, None, 0.0, None, 0.0, method)


def _one_layer(
    oracle: Oracle, model: Transformer, f: SparseFunction, rng: np.random.Generator, p: float
) -> AllInputs:
    tables = head_tables(model)
    found = search(TableForward(model, tables), f, rng, threshold=oracle.threshold, p=p)
    wrong = None
    if found.margin < 0:
        decided = bool(oracle(found.bits[None])[0])
        if decided != bool(f(found.bits) > 0.5):
            wrong = tuple(int(t) for t in np.flatnonzero(found.bits))
    leaves = branch(model, tables, f, threshold=oracle.threshold, most=FEW if wrong else MANY)
    ones, ones_share = leaves.proved_ones(p)
    status: Status = "refuted" if wrong is not None else "open"
    if (leaves.margins > 0).all():
        status = "proved"
    return AllInputs(
        status, float(leaves.margins.min()), found.margin, wrong, leaves.proved_share(p), ones,
        ones_share, f"{leaves.enclosed} cells enclosed, {found.inputs} inputs searched",
    )  # fmt: skip
