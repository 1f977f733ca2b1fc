"""Does the formula hold on all 2^T inputs? Proved, refuted with an input, or open with the gap.

One-layer Transformers: the logit is enclosed over every pattern of the support and all fillers
(`enclosure`); a cell whose enclosure does not decide is cut (`branching`). Cells that are undecided
at the end are open, and the probability of the proved ones is exact: the number of ones among
fillers is binomial. A search for a counterexample runs first; an input that it finds is confirmed
on the model. PyTorch modules of the same form are read first (`decompile.modules`), and proved
alike. Compiled networks: the certified range of their head. Transformers of two layers: the search
alone.
Open verdicts, and every other model, are decided by asking the model about all inputs if these are
at most 2^22; otherwise they stay open.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from capax.attention.collapsed.one_layer import why_not
from capax.attention.parts.normalizers import Softmax
from capax.attention.readout import ClsMLP, ClsScalar
from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.compiler.certificate.float32 import float32_margin
from capax.compiler.proof.adversary import attack
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import head_tables, readout_output
from capax.decompile.machine.forward_error import FLOAT32
from capax.decompile.proof.asked_inputs import attacked, few_inputs, numbers
from capax.decompile.proof.branching import branch
from capax.decompile.proof.counterexample import search
from capax.decompile.proof.one_query_layer import OneQueryLayer, layer_as_run, one_query_layer
from capax.decompile.proof.query_cases import (
    LayerReading,
    QueryCase,
    all_ones,
    restricted,
    with_bit,
)
from capax.decompile.proof.table_forward import TableForward
from capax.decompile.proof.verdict import AllInputs, Status, unknown
from capax.decompile.reading.oracle import Oracle

CELLS = 512
Run = Callable[[np.ndarray], np.ndarray]


def on_all_inputs(
    model: Oracle,
    f: SparseFunction,
    rng: np.random.Generator,
    *,
    p: float,
    cells: int = CELLS,
    reading: LayerReading | None = None,
    reason: str = "asked by queries alone",
) -> AllInputs:
    """Prove, refute or leave open that `model` decides as f on all 2^T inputs.

    cells: how many cells of inputs are enclosed at most, where a refuted formula gets a quarter.
    reading: a PyTorch module in the form that is proved; reason: why there is none.
    """
    found = _proved(model, f, rng, p, cells, reading, reason)
    return few_inputs(model, f, found) if found.status == "open" else found


def _proved(
    model: Oracle,
    f: SparseFunction,
    rng: np.random.Generator,
    p: float,
    cells: int,
    reading: LayerReading | None,
    reason: str,
) -> AllInputs:
    """The verdict of the enclosures, if the model has a form that they know."""
    known = model.model
    if reading is not None:
        return _read_module(model, reading, f, rng, p, cells)
    if isinstance(known, Transformer):
        why = why_not(known.spec)
        if why is None and known.spec.alphabet > 2:
            why = "the enclosure of trained models is written for bits"
        if why is not None:
            return attacked(model, f, rng, p, f"not provable here: {why}")
        forward, run = TableForward(one_query_layer(known)), lambda X: _run(known, X)
        shaken = layer_as_run(known, FLOAT32)
        return _one_layer(model, forward, run, f, rng, p, cells, shaken)
    if isinstance(known, ClsScalar | ClsMLP) and _is_table_model(known):
        return _compiled(model, known, f, rng)
    return unknown(reason)


def _is_table_model(model: ClsScalar | ClsMLP) -> bool:
    """Softmax, and a read-out that the compiler's proofs know."""
    plain = isinstance(model.norm, Softmax) and model.norm.temperature == 1.0
    return plain and (isinstance(model, ClsMLP) or model.activation == "identity")


def _compiled(
    oracle: Oracle, model: ClsScalar | ClsMLP, f: SparseFunction, rng: np.random.Generator
) -> AllInputs:
    """The certified range of the head and its read-out; a search where it does not decide."""
    tables = head_tables(model)
    low, high = output_range(model, tables, f.support)
    ones = f.table > 0.5
    margins = np.where(ones, low - oracle.threshold, oracle.threshold - high)
    method = "certified range of the head"
    if (margins > 0).all():
        every = (0, oracle.T - f.s) if f.alphabet == 2 else None
        single = float32_margin(model, tables, f) if oracle.threshold == model.threshold else None
        return AllInputs(
            "proved", float(margins.min()), None, None, 1.0, every, 1.0, method,
            float32_margin=single.margin if single is not None and single.decided else None,
        )  # fmt: skip
    targets = np.where(ones, 1.0, 0.0 if isinstance(model, ClsMLP) else -1.0)
    worst = attack(
        tables, f.support, targets, lambda u: readout_output(model, u),
        rows=[int(margins.argmin())], seed=int(rng.integers(1 << 31)),
    )  # fmt: skip
    wrong = bool(oracle(worst.bits[None].astype(np.uint8))[0]) != bool(f(worst.bits) > 0.5)
    shown = np.flatnonzero(worst.bits) if f.alphabet == 2 else worst.bits
    found = tuple(int(t) for t in shown) if wrong else None
    status: Status = "refuted" if wrong else "open"
    return AllInputs(status, float(margins.min()), None, found, 0.0, None, 0.0, method)


def _one_layer(
    oracle: Oracle,
    forward: TableForward,
    run: Run,
    f: SparseFunction,
    rng: np.random.Generator,
    p: float,
    cells: int,
    shaken: OneQueryLayer | None = None,
) -> AllInputs:
    """shaken: the layer as float32 runs it."""
    with np.errstate(all="ignore"):  # numbers that overflow decide nothing: the verdict is open
        return _searched_and_enclosed(oracle, forward, run, f, rng, p, cells, shaken)


def _read_module(
    oracle: Oracle,
    reading: LayerReading,
    f: SparseFunction,
    rng: np.random.Generator,
    p: float,
    cells: int,
) -> AllInputs:
    """A module whose query is a bit: proved for each of its values, and the verdicts joined."""
    found = [
        _one_layer(
            _with_query(oracle, reading, case), TableForward(case.layer),
            lambda X, case=case: reading.as_logits(oracle.values(with_bit(X, case))),
            restricted(f, case), rng, p, max(1, cells // len(reading.cases)),
        )
        for case in reading.cases
    ]  # fmt: skip
    told = f"{reading.told}; "
    if len(found) == 1:
        return replace(found[0], method=told + found[0].method)
    worst = min(found, key=lambda one: (one.status != "refuted", one.margin or -np.inf))
    proved = all(one.status == "proved" for one in found)
    wrong = [
        all_ones(one.counterexample, case)
        for one, case in zip(found, reading.cases, strict=True)
        if one.counterexample is not None
    ]
    share = p * found[1].proved_share + (1 - p) * found[0].proved_share
    return replace(
        worst,
        status="proved" if proved else "refuted" if wrong else "open",
        counterexample=wrong[0] if wrong else None,
        proved_share=1.0 if proved else float(share),
        ones=(0, oracle.T - f.s) if proved else None,
        ones_share=1.0 if proved else 0.0,
        method=told + "; ".join(f"bit {c.bit}: {one.method}" for c, one in
                                zip(reading.cases, found, strict=True)),
        as_run=max(one.as_run or 0.0 for one in found) if proved else None,
    )  # fmt: skip


def _with_query(oracle: Oracle, reading: LayerReading, case: QueryCase) -> Oracle:
    """The model at a fixed value of its query bit, as logits."""
    threshold = reading.logit_threshold(oracle.threshold)
    T = oracle.T - (case.position is not None)
    return Oracle(
        lambda X: reading.as_logits(oracle.values(with_bit(X, case))), T, threshold, oracle.kind
    )


def _searched_and_enclosed(
    oracle: Oracle,
    forward: TableForward,
    run: Run,
    f: SparseFunction,
    rng: np.random.Generator,
    p: float,
    cells: int,
    shaken: OneQueryLayer | None,
) -> AllInputs:
    found = search(forward, f, rng, threshold=oracle.threshold, p=p)
    wrong = None
    if found.margin < 0:
        given = numbers(oracle, found.bits[None])
        if given is not None and (given[0] > oracle.threshold) != (f(found.bits) > 0.5):
            wrong = tuple(int(t) for t in np.flatnonzero(found.bits))
    most = cells // 4 if wrong else cells
    leaves = branch(forward.layer, f, threshold=oracle.threshold, p=p, most=most)
    ones, ones_share = leaves.proved_ones(p)
    status: Status = "refuted" if wrong is not None else "open"
    if (leaves.margins > 0).all():
        status = "proved"
    as_run, float32 = None, None
    if status == "proved":
        as_run = _finite(forward.distance_as_run(run, found.bits, rng.spawn(1)[0], p))
    if status == "proved" and shaken is not None:
        least = branch(
            shaken, f, threshold=oracle.threshold, p=p, most=most // 8, start=leaves
        ).margins.min()
        float32 = float(least) if least > 0 else None
    return AllInputs(
        status, float(leaves.margins.min()), _finite(found.margin), wrong, leaves.proved_share(p),
        ones, ones_share, f"{leaves.enclosed} cells enclosed, {found.inputs} inputs searched",
        as_run, float32_margin=float32,
    )  # fmt: skip


@eqx.filter_jit
def _run(model: Transformer, X: Any) -> Any:
    return jax.vmap(lambda bits: model(bits))(X)


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None
