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

import equinox as eqx
import jax
import numpy as np

from capax.attention.collapsed.one_layer import why_not
from capax.attention.normalizers import Softmax
from capax.attention.readout import ClsMLP, ClsScalar
from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.compiler.proof.adversary import attack
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import head_tables, readout_output
from capax.decompile.proof.branching import branch
from capax.decompile.proof.counterexample import search
from capax.decompile.proof.layer_tables import layer_tables
from capax.decompile.proof.table_forward import TableForward
from capax.decompile.reading.influence import random_bits
from capax.decompile.reading.oracle import Oracle
from capax.errors import InputError

Status = Literal["proved", "refuted", "open"]
CELLS = 512
SAMPLED = 63
"""Inputs on which the model is run beside its tables."""


@dataclass(frozen=True)
class AllInputs:
    """The verdict over all inputs.

    `margin`: certified lower bound of the distance of the logit from the threshold on the right
    side over all inputs (negative: the gap that is open). `found_margin`: the smallest that a
    search met (None: no search). Both are about real arithmetic on the stored weights; `as_run` is
    the largest distance between the number that the model gave when it was run and the real one,
    on 64 inputs (None: not measured): a measurement, no bound. `counterexample`: the positions that
    are 1 in it (with more than two symbols: its T symbols). `proved_share`: probability under
    the data distribution of the inputs on which the formula is proved. `ones`: for the largest such
    interval, the formula is proved for every pattern and all fillers with so many ones;
    `ones_share` its probability.
    """

    status: Status
    margin: float | None
    found_margin: float | None
    counterexample: tuple[int, ...] | None
    proved_share: float
    ones: tuple[int, int] | None
    ones_share: float
    method: str
    as_run: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        content = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}


def on_all_inputs(
    model: Oracle, f: SparseFunction, rng: np.random.Generator, *, p: float, cells: int = CELLS
) -> AllInputs:
    """Prove, refute or leave open that `model` decides as f on all 2^T inputs.

    cells: how many cells of inputs are enclosed at most, where a refuted formula gets a quarter.
    """
    known = model.model
    if isinstance(known, Transformer):
        reason = why_not(known.spec)
        if reason is None and known.spec.alphabet > 2:
            reason = "the enclosure of trained models is written for bits"
        if reason is None:
            return _one_layer(model, known, f, rng, p, cells)
        return _unknown(f"not provable here: {reason}")
    if isinstance(known, ClsScalar | ClsMLP) and _is_table_model(known):
        return _compiled(model, known, f, rng)
    return _unknown("asked by queries alone")


def _unknown(method: str) -> AllInputs:
    return AllInputs("open", None, None, None, 0.0, None, 0.0, method)


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
        return AllInputs("proved", float(margins.min()), None, None, 1.0, every, 1.0, method)
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
    model: Transformer,
    f: SparseFunction,
    rng: np.random.Generator,
    p: float,
    cells: int,
) -> AllInputs:
    with np.errstate(all="ignore"):  # numbers that overflow decide nothing: the verdict is open
        return _searched_and_enclosed(oracle, model, f, rng, p, cells)


def _searched_and_enclosed(
    oracle: Oracle,
    model: Transformer,
    f: SparseFunction,
    rng: np.random.Generator,
    p: float,
    cells: int,
) -> AllInputs:
    tables = layer_tables(model)
    forward = TableForward(model, tables)
    found = search(forward, f, rng, threshold=oracle.threshold, p=p)
    wrong = None
    if found.margin < 0:
        given = _numbers(oracle, found.bits[None])
        if given is not None and (given[0] > oracle.threshold) != (f(found.bits) > 0.5):
            wrong = tuple(int(t) for t in np.flatnonzero(found.bits))
    most = cells // 4 if wrong else cells
    leaves = branch(model, tables, f, threshold=oracle.threshold, p=p, most=most)
    ones, ones_share = leaves.proved_ones(p)
    status: Status = "refuted" if wrong is not None else "open"
    if (leaves.margins > 0).all():
        status = "proved"
    return AllInputs(
        status, float(leaves.margins.min()), _finite(found.margin), wrong, leaves.proved_share(p),
        ones, ones_share, f"{leaves.enclosed} cells enclosed, {found.inputs} inputs searched",
        _distance_as_run(forward, found.bits, rng.spawn(1)[0], p) if status == "proved" else None,
    )  # fmt: skip


def _distance_as_run(
    forward: TableForward, worst: np.ndarray, rng: np.random.Generator, p: float
) -> float | None:
    """Largest |number as run - real number| on the worst input found and on random ones.

    The model runs token by token as it is, not on its tables, which know no key bias.
    """
    X = np.concatenate([worst[None], random_bits(rng, SAMPLED, forward.tables.T, p)])
    given = np.asarray(_run(forward.model, X.astype(np.int32)), np.float64)
    return _finite(np.abs(given - forward.logits(forward.sums(X))).max())


@eqx.filter_jit
def _run(model: Transformer, X: Any) -> Any:
    return jax.vmap(lambda bits: model(bits))(X)


def _numbers(oracle: Oracle, X: np.ndarray) -> np.ndarray | None:
    """The model's numbers as run; None where one of them is NaN, which confirms nothing."""
    try:
        return oracle.values(X)
    except InputError:
        return None


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None
