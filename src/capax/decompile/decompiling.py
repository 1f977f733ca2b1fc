"""From a trained network to a formula: which bits, which function, how true, what it promises."""

from dataclasses import replace
from typing import Any

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.capacity.certificates.tails import binomial_upper
from capax.decompile.bounds.certificate import Evidence, FormulaCertificate, formula_bound
from capax.decompile.bounds.description import description_bits
from capax.decompile.bounds.other_routes import Prior, other_routes
from capax.decompile.bounds.training_data import TrainingData, acceptance
from capax.decompile.decompiled import Agreement, Decompiled, Influence
from capax.decompile.proof.all_inputs import AllInputs, on_all_inputs
from capax.decompile.reading.formula import shortest_formula
from capax.decompile.reading.influence import Candidates, find_candidates, influences, random_bits
from capax.decompile.reading.oracle import CELLS, Oracle, attention_of, oracle
from capax.decompile.reading.truth_table import TruthTable, read_table
from capax.errors import require

MAX_SUPPORT = 12
MAX_PROVED_SUPPORT = 8
STEADY, TOLERANCE = 0.9, 0.01
"""A model is a function of the candidates if every row of their table is this consistent."""


def decompile(
    model: Any,
    data: TrainingData | None = None,
    *,
    T: int | None = None,
    p: float | None = None,
    threshold: float | None = None,
    delta: float = 0.05,
    max_support: int = 10,
    pairs: int = 2000,
    fillers: int = 64,
    fresh: int = 20_000,
    prove: bool = True,
    cells: int = 512,
    routes: bool = True,
    prior: Prior | None = None,
    seed: int = 0,
) -> Decompiled:
    """Read off the formula that a model computes, and say how true it is.

    model: a Capax module, a PyTorch module, a scikit-learn estimator, or any callable bits [n, T]
    -> n numbers. data: what it was trained on, for the certificate. T: number of bits, where the
    model does not tell. p: P[bit = 1] of the inputs (default: that of the data's task, else 1/2).
    threshold: numbers above it mean 1. delta: failure probability of every interval. max_support:
    most bits a formula may have. pairs, fillers, fresh: how many questions are asked for the
    support, for each row of the table, and for the agreement. prove: try all inputs, with at most
    `cells` cells of them enclosed (more prove more, and take longer). routes: with data, also
    bounds by hold-out, PAC-Bayes and norms. prior: for PAC-Bayes around the weights, a network
    that was trained on the first examples of the data only (default: the origin).

    Examples:
        >>> import capax
        >>> found = capax.decompile(capax.compile("x1 ^ x4", T=6).model)
        >>> found.support
        (1, 4)
    """
    asked = oracle(model, T, threshold)
    _check(asked, data, p, delta, max_support, pairs, fillers, fresh)
    chance = _probability(p, data)
    rng = np.random.default_rng(seed)
    found = find_candidates(
        asked, rng, p=chance, pairs=pairs, limit=max_support, hints=_attended(asked, rng, chance)
    )
    table, f = _function(asked, rng, found, chance, fillers)
    counted = _influences(asked, rng, f, chance, pairs)
    whole = AllInputs("open", None, None, None, 0.0, None, 0.0, "not asked for")
    if prove and f.s <= MAX_PROVED_SUPPORT:
        whole = on_all_inputs(asked, f, rng, p=chance, cells=cells)
    tried = _draws(data)
    agreement, training, certificate = _evidence(
        asked, f, rng, data, chance, delta, fresh, whole, tried
    )
    if certificate is not None and data is not None and routes:
        others = other_routes(asked, f, data, delta, tried, prior)
        certificate = replace(certificate, routes=others.found, skipped=others.skipped)
    return Decompiled(
        formula=shortest_formula(f),
        function=f,
        table=table,
        candidates=found,
        influences=counted,
        agreement=agreement,
        training=training,
        all_inputs=whole,
        certificate=certificate,
        queries=asked.queries,
        kind=asked.kind,
        p=chance,
    )


def _check(
    asked: Oracle,
    data: TrainingData | None,
    p: float | None,
    delta: float,
    max_support: int,
    *counts: int,
) -> None:
    require(p is None or 0 < p < 1, "p", "a probability in (0, 1)", p)
    require(0 < delta < 1, "delta", "a probability in (0, 1)", delta)
    fits = 1 <= max_support <= MAX_SUPPORT
    require(fits, "max_support", f"1 to {MAX_SUPPORT} bits", max_support)
    for name, count in zip(("pairs", "fillers", "fresh"), counts, strict=True):
        require(count >= 1, name, "a positive number", count)
    if data is not None:
        same = data.X.shape[1] == asked.T
        require(same, "data", f"inputs of T = {asked.T} bits", data.X.shape)


def _probability(p: float | None, data: TrainingData | None) -> float:
    if p is not None:
        return float(p)
    return data.task.probability if data is not None and data.task is not None else 0.5


def _attended(asked: Oracle, rng: np.random.Generator, p: float) -> tuple[int, ...]:
    """Positions that some head of a Transformer looks at far more than at the average one."""
    from capax.attention.transformer import Transformer

    if not isinstance(asked.model, Transformer):
        return ()
    X = random_bits(rng, 32, asked.T, p)
    layers = attention_of(asked.model, X)
    mean = np.max([w.mean(0)[:, :-1].max(0) for w in layers], axis=0)  # [T]
    strong = np.flatnonzero(mean > 3 * mean.mean())
    return tuple(int(t) for t in strong[np.argsort(-mean[strong], kind="stable")])


def _function(
    asked: Oracle, rng: np.random.Generator, found: Candidates, p: float, fillers: int
) -> tuple[TruthTable, SparseFunction]:
    """The majority on the candidates; then, with fresh fillers, on the bits that matter to it."""
    bits = found.bits
    first = read_table(asked, rng, bits, p=p, fillers=max(8, fillers >> max(0, len(bits) - 8)))
    kept = first.function.support
    if not found.complete or first.consistency.min() < STEADY:
        kept = _fewer(asked, rng, first, p)
    table = read_table(asked, rng, kept, p=p, fillers=fillers)
    f = table.function
    return (table if f.s == len(table.support) else table.projected(f.support)), f


def _fewer(asked: Oracle, rng: np.random.Generator, table: TruthTable, p: float) -> tuple[int, ...]:
    """The fewest of the most influential bits whose majority agrees almost as often as that of all.

    For models that are no function of few bits: a formula with every stray bit in it would say
    less, not more. Almost: within `TOLERANCE` of the best.
    """
    counts, _ = influences(asked, rng, table.support, p=p, n=1000)
    order = [table.support[i] for i in np.argsort(-counts, kind="stable")]
    X = random_bits(rng, min(4000, max(500, CELLS // asked.T)), asked.T, p)
    decided = asked(X)
    prefixes = [tuple(sorted(order[:j])) for j in range(len(order) + 1)]
    equal = [float((decided == (table.majority_on(bits, p)(X) > 0.5)).mean()) for bits in prefixes]
    best = max(equal)
    return next(b for b, e in zip(prefixes, equal, strict=True) if e >= best - TOLERANCE)


def _influences(
    asked: Oracle, rng: np.random.Generator, f: SparseFunction, p: float, pairs: int
) -> tuple[Influence, ...]:
    counts, n = influences(asked, rng, f.support, p=p, n=min(1000, pairs))
    return tuple(Influence(bit, int(k), n) for bit, k in zip(f.support, counts, strict=True))


def _evidence(
    asked: Oracle,
    f: SparseFunction,
    rng: np.random.Generator,
    data: TrainingData | None,
    p: float,
    delta: float,
    fresh: int,
    whole: AllInputs,
    tried: tuple[int, int],
) -> tuple[Agreement, Agreement | None, FormulaCertificate | None]:
    """Agreement with the network on fresh inputs and with the labels; the certificate."""
    n = max(1, min(fresh, 64 * CELLS // asked.T))
    agreement = _counted(asked, f, rng, n, p, delta)
    if data is None:
        return agreement, None, None
    errors = int((f(data.X) != data.y).sum())
    m = len(data.y)
    proved = whole.status == "proved"
    seen = Evidence(errors, m, n - agreement.equal, 0 if proved else n, *tried)
    bound = formula_bound(f, asked.T, seen, delta)
    certificate = FormulaCertificate(bound, description_bits(f, asked.T), m, ())
    return agreement, agreement_of(m - errors, m, delta), certificate


def _draws(data: TrainingData | None) -> tuple[int, int]:
    """(accepted, drawn) training sets where ambiguous ones were redrawn, else (0, 0)."""
    task = None if data is None else data.task
    return acceptance(task) if task is not None and task.reject_ambiguous else (0, 0)


def _counted(
    asked: Oracle, f: SparseFunction, rng: np.random.Generator, n: int, p: float, delta: float
) -> Agreement:
    block, equal = max(1, CELLS // asked.T), 0
    for start in range(0, n, block):
        X = random_bits(rng, min(block, n - start), asked.T, p)
        equal += int((asked(X) == (f(X) > 0.5)).sum())
    return agreement_of(equal, n, delta)


def agreement_of(equal: int, n: int, delta: float) -> Agreement:
    """Share of equal answers with its exact two-sided interval (Clopper and Pearson)."""
    log_half = float(np.log(delta / 2))
    low = 1.0 - binomial_upper(n - equal, n, log_half)
    high = binomial_upper(equal, n, log_half)
    return Agreement(equal / n, low, high, n, equal)
