"""From a trained network to a formula: its bits, its function, its proof and its certificate."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.certificates.evidence import Evidence
from capax.capacity.certificates.portfolio import draws_of
from capax.capacity.certificates.tails import binomial_lower, binomial_upper
from capax.decompile.bounds.input_law import check_bits, stated_probability
from capax.decompile.bounds.network_certificate import network_certificate
from capax.decompile.decompiled import Decompiled, ExactShare
from capax.decompile.modules.leaf_calls import NotRead
from capax.decompile.modules.module_reading import read_module
from capax.decompile.proof.all_inputs import on_all_inputs
from capax.decompile.proof.query_cases import LayerReading
from capax.decompile.proof.verdict import AllInputs
from capax.decompile.reading.formula import shortest_formula
from capax.decompile.reading.influence import (
    Candidates,
    find_candidates,
    influences,
    missed,
    random_inputs,
)
from capax.decompile.reading.oracle import (
    CELLS,
    Oracle,
    attention_of,
    is_torch_module,
    oracle,
    same_again,
    torch_numbers,
)
from capax.decompile.reading.truth_table import TruthTable, read_table
from capax.errors import require

MAX_SUPPORT = 12
MAX_PROVED_SUPPORT = 8
STEADY, TOLERANCE = 0.9, 0.01
"""A model is a function of the candidates if every row of their table is this consistent."""
ASKED_TWICE = 256
"""Inputs that are evaluated twice, in another order: the model must give the same decisions."""
COMPANIES = 8
"""Batches of the second evaluation: an answer must not depend on the other inputs of its batch."""


@dataclass(frozen=True)
class Effort:
    """The effort of a decompilation.

    max_support: most bits of a formula. pairs, fillers, fresh: number of evaluations for the
    support, for each row of the table, and for the agreement. cells: largest number of cells of
    inputs in the proof on all inputs (more prove more, and take longer; 0: no proof is tried).
    """

    max_support: int = 10
    pairs: int = 2000
    fillers: int = 64
    fresh: int = 20_000
    cells: int = 512

    def __post_init__(self) -> None:
        fits = 1 <= self.max_support <= MAX_SUPPORT
        require(fits, "max_support", f"1 to {MAX_SUPPORT} bits", self.max_support)
        for name in ("pairs", "fillers", "fresh"):
            require(getattr(self, name) >= 1, name, "a positive number", getattr(self, name))
        require(self.cells >= 0, "cells", "a number of cells, or 0 for no proof", self.cells)


def decompile(
    model: Any,
    evidence: Evidence | None = None,
    *,
    T: int | None = None,
    p: float | None = None,
    threshold: float | None = None,
    delta: float = 0.05,
    effort: Effort = Effort(),
    seed: int = 0,
    alphabet: int | None = None,
) -> Decompiled:
    """Find the formula that a model computes, and prove, refute or measure it.

    model: a Capax module, a PyTorch module, a scikit-learn estimator, or any callable bits [n, T]
    -> n numbers; it must be deterministic. evidence: its training data, and more, for the
    certificate. T: number of bits, if the model does not have it. p: P[bit = 1] of the inputs; with
    data it must be stated, here or by the task of the data, else it is 1/2. threshold: numbers
    above it mean 1 (default: the model's own). delta: failure probability of the certificate, and
    of every interval. effort: number of evaluations and cells. alphabet: number of symbols of an
    input position, if the model does not have it; with more than two, inputs are uniform, p is the
    chance of each symbol, and there is no certificate from data.

    Examples:
        >>> import capax
        >>> found = capax.decompile(capax.compile("x1 ^ x4", T=6).model)
        >>> found.support
        (1, 4)
    """
    asked = oracle(model, T, threshold, alphabet)
    chance, draws = _stated(asked, evidence, p, delta)
    rng = np.random.default_rng(seed)
    _check_repeats(asked, rng, chance)
    found = _candidates(asked, rng, chance, effort)
    table, f = _function(asked, rng, found, chance, effort.fillers)
    left_out = tuple(bit for bit in found.bits if bit not in f.support)
    num_flips = min(1000, effort.pairs)
    counted = influences(asked, rng, f.support, p=chance, n=num_flips)
    dropped = influences(asked, rng, left_out, p=chance, n=effort.pairs) if left_out else ()
    whole = _on_all_inputs(asked, f, rng, chance, effort.cells)
    agreement = _agreement(asked, f, rng, effort.fresh, chance, delta)
    training, certificate = _from_data(asked, f, evidence, whole, agreement, chance, delta, draws)
    return Decompiled(
        formula=shortest_formula(f),
        function=f,
        table=table,
        missed=missed(found, dropped),
        influences=counted,
        agreement=agreement,
        training=training,
        all_inputs=whole,
        certificate=certificate,
        queries=asked.queries,
        kind=asked.kind,
        p=chance,
        threshold=asked.threshold,
    )


def _candidates(
    asked: Oracle, rng: np.random.Generator, chance: float, effort: Effort
) -> Candidates:
    """The relevant bits, at most as many as a formula may have."""
    limit = min(effort.max_support, int(MAX_SUPPORT / np.log2(asked.alphabet) + 1e-9))
    hints = _attended(asked, rng, chance)
    return find_candidates(asked, rng, p=chance, pairs=effort.pairs, limit=limit, hints=hints)


def _from_data(
    asked: Oracle,
    f: SparseFunction,
    evidence: Evidence | None,
    whole: AllInputs,
    agreement: ExactShare,
    chance: float,
    delta: float,
    draws: Any,
) -> tuple[ExactShare | None, ErrorCertificate | None]:
    """Agreement with the training data, and the certificate of the network's error from them."""
    if evidence is None or evidence.data is None:
        return None, None
    data = evidence.data
    training = agreement_of(int((f(data.X) == data.y).sum()), len(data.y), delta)
    fresh = (agreement.n - agreement.equal, agreement.n) if whole.status != "proved" else (0, 0)
    certificate = network_certificate(
        asked, f, evidence, fresh=fresh, p=chance, delta=delta, draws=draws
    )
    return training, certificate


def _stated(
    asked: Oracle, evidence: Evidence | None, p: float | None, delta: float
) -> tuple[float, Any]:
    """P[bit = 1] and the counts of rejected training sets; all arguments are checked."""
    require(p is None or 0 < p < 1, "p", "a probability in (0, 1)", p)
    require(0 < delta < 1, "delta", "a probability in (0, 1)", delta)
    if asked.alphabet > 2:
        even = 1 / asked.alphabet
        fits = p is None or abs(p - even) < 1e-6
        require(
            fits, "p", f"{even:.6g} or no p: all {asked.alphabet} symbols are equally likely", p
        )
        bare = evidence is None or evidence.data is None
        require(bare, "data", "no data for a model of more than two symbols", "training data")
        return even, None
    chance = stated_probability(p, evidence)
    if evidence is None or evidence.data is None:
        return chance, None
    X = evidence.data.X
    require(X.shape[1] == asked.T, "data", f"inputs of T = {asked.T} bits", X.shape)
    draws = draws_of(evidence)
    check_bits(X, chance, draws)
    return chance, draws


def _check_repeats(asked: Oracle, rng: np.random.Generator, p: float) -> None:
    """A bit is said to matter for certain, which a model that answers at random would break."""
    X = random_inputs(asked, rng, ASKED_TWICE, p)
    decided = asked(X)
    for rows in np.array_split(rng.permutation(ASKED_TWICE), COMPANIES):
        same_again(asked, X[rows], decided[rows])


def _attended(asked: Oracle, rng: np.random.Generator, p: float) -> tuple[int, ...]:
    """Positions with far more attention than average in some head of a Transformer."""
    from capax.attention.transformer import Transformer

    if not isinstance(asked.model, Transformer):
        return ()
    X = random_inputs(asked, rng, 32, p)
    layers = attention_of(asked.model, X)
    mean = np.max([w.mean(0)[:, :-1].max(0) for w in layers], axis=0)  # [T]
    strong = np.flatnonzero(mean > 3 * mean.mean())
    return tuple(int(t) for t in strong[np.argsort(-mean[strong], kind="stable")])


def _function(
    asked: Oracle, rng: np.random.Generator, found: Candidates, p: float, fillers: int
) -> tuple[TruthTable, SparseFunction]:
    """The majority on the candidates; then, with fresh fillers, on its relevant bits."""
    bits = found.bits
    first = read_table(asked, rng, bits, p=p, fillers=max(8, fillers >> max(0, len(bits) - 8)))
    kept = first.function.support
    if not found.complete or first.consistency.min() < STEADY:
        kept = _fewer(asked, rng, first, p)
    table = read_table(asked, rng, kept, p=p, fillers=fillers)
    f = table.function
    return (table if f.s == len(table.support) else table.projected(f.support)), f


def _fewer(asked: Oracle, rng: np.random.Generator, table: TruthTable, p: float) -> tuple[int, ...]:
    """The fewest of the most influential bits whose majority agrees almost as often as with all.

    For models that are not a function of few bits: a formula with every weak bit would be less
    clear. Almost: within `TOLERANCE` of the best.
    """
    counted = influences(asked, rng, table.support, p=p, n=1000)
    order = [one.bit for one in sorted(counted, key=lambda one: -one.changed)]
    X = random_inputs(asked, rng, min(4000, max(500, CELLS // asked.T)), p)
    decided = asked(X)
    prefixes = [tuple(sorted(order[:j])) for j in range(len(order) + 1)]
    equal = [float((decided == (table.majority_on(bits, p)(X) > 0.5)).mean()) for bits in prefixes]
    best = max(equal)
    return next(b for b, e in zip(prefixes, equal, strict=True) if e >= best - TOLERANCE)


def _on_all_inputs(
    asked: Oracle, f: SparseFunction, rng: np.random.Generator, p: float, cells: int
) -> AllInputs:
    """The verdict on all inputs; PyTorch modules and the zoo are first converted to the form that
    is proved."""
    if not cells or f.table.size > 1 << MAX_PROVED_SUPPORT:
        return AllInputs("open", None, None, None, 0.0, None, 0.0, "not asked for")
    reading = _reading_of_zoo(asked.model)
    if reading is not None:
        return on_all_inputs(asked, f, rng, p=p, cells=cells, reading=reading)
    if not is_torch_module(asked.model) or f.alphabet > 2:
        return on_all_inputs(asked, f, rng, p=p, cells=cells)
    try:
        reading = read_module(asked.model, _flat_numbers, asked.T)
    except NotRead as reason:
        why = f"asked by queries alone: {reason}"
        return on_all_inputs(asked, f, rng, p=p, cells=cells, reason=why)
    return on_all_inputs(asked, f, rng, p=p, cells=cells, reading=reading)


def _reading_of_zoo(model: Any) -> LayerReading | None:
    """The form of a network of the zoo that is proved; other models do not import the zoo."""
    if type(model).__module__ != "capax.decompile.modules.zoo_reading":
        return None
    from capax.decompile.modules.zoo_reading import ZooNetwork, zoo_reading

    return zoo_reading(model) if isinstance(model, ZooNetwork) and model.covered else None


def _flat_numbers(module: Any) -> Any:
    """Bits -> n numbers of a PyTorch module."""
    numbers = torch_numbers(module)
    return lambda X: np.asarray(numbers(X), np.float64).reshape(len(X))


def _agreement(
    asked: Oracle, f: SparseFunction, rng: np.random.Generator, fresh: int, p: float, delta: float
) -> ExactShare:
    """How often formula and network decide alike on fresh inputs."""
    n = max(1, min(fresh, 64 * CELLS // asked.T))
    block, equal = max(1, CELLS // asked.T), 0
    for start in range(0, n, block):
        X = random_inputs(asked, rng, min(block, n - start), p)
        equal += int((asked(X) == (f(X) > 0.5)).sum())
    return agreement_of(equal, n, delta)


def agreement_of(equal: int, n: int, delta: float) -> ExactShare:
    """Share of equal answers with its exact two-sided interval (Clopper and Pearson)."""
    log_half = float(np.log(delta / 2))
    low = binomial_lower(equal, n, log_half)
    high = binomial_upper(equal, n, log_half)
    return ExactShare(equal / n, low, high, n, equal)
