"""What else bounds the network's error from the same data: hold-out, PAC-Bayes and norms.

Each route holds with probability 1 - delta on its own, and says which predictor it is about: the
network, networks drawn around it, or a rule drawn from those that the sample left. Where training
sets were redrawn until one was accepted, a tenth of delta pays for the acceptance probability and
every route on the training set for the conditioning; hold-out examples are free of it.

PAC-Bayes, twice. *Over formulas*: the prior is the code of `description` (shape, then uniform over
the N placements), the posterior uniform over the V placements of the shape with the fewest errors:
KL = bits(shape) ln 2 + ln(N/V). *Around the weights*: a Gaussian around the model, the prior
around a network that saw only the first examples, or around the origin where there is none. A KL
that is vacuous even for a perfect Gibbs predictor is not sampled: its error is taken to be 1.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capax.boolean.best_possible.disagreement import log_num_placements
from capax.boolean.functions import SparseFunction
from capax.capacity.bound import Bound
from capax.capacity.certificates.pac_bayes import (
    LEAST_EXAMPLES,
    SIGMAS,
    GibbsErrors,
    gaussian_kl,
    gaussian_pac_bayes_bound,
    pac_bayes_bound,
    version_space_bound,
)
from capax.capacity.certificates.tails import holdout_bound, price_of_conditioning
from capax.capacity.certificates.version_space import best_placements
from capax.decompile.bounds.certificate import REJECTION_SHARE
from capax.decompile.bounds.description import description_bits
from capax.decompile.bounds.training_data import TrainingData
from capax.decompile.reading.oracle import Oracle
from capax.errors import InfeasibleError, InputError, require

LN_2 = math.log(2.0)
MAX_PLACED = 4
"""Placements of larger formulas are too many to count."""


@dataclass(frozen=True)
class Prior:
    """A network of the model's shape that was trained on the first `size` examples only."""

    module: Any
    size: int


@dataclass(frozen=True)
class Routes:
    """The bounds that were found, and why others were not."""

    found: tuple[Bound, ...]
    skipped: tuple[str, ...]


def other_routes(
    asked: Oracle,
    f: SparseFunction,
    data: TrainingData,
    delta: float,
    tried: tuple[int, int] = (0, 0),
    prior: Prior | None = None,
) -> Routes:
    """Every route that model and data allow. tried: (accepted, draws) of training sets, if any."""
    share, cost = delta, 0.0
    if tried[1]:
        price = price_of_conditioning(*tried, REJECTION_SHARE * delta)
        share, cost = (1 - REJECTION_SHARE) * delta, price.cost
    known = _weights(asked)
    routes: list[tuple[str, Callable[[], Iterator[Bound]]]] = [
        ("hold-out", lambda: _holdout(asked, data, delta)),
        ("PAC-Bayes over formulas", lambda: _over_formulas(f, data, share, cost)),
    ]
    if known is not None:
        routes += [
            (
                "PAC-Bayes around the weights",
                lambda: around_weights(known, data, share, cost, prior),
            ),
            ("norms", lambda: _norms(asked, data, share, cost)),
        ]
    found: list[Bound] = []
    skipped: list[str] = []
    for name, route in routes:
        try:
            found += (replace(bound, delta=delta) for bound in route())
        except (InputError, InfeasibleError) as error:
            skipped.append(f"{name}: {error}")
    return Routes(tuple(found), tuple(skipped))


def _weights(asked: Oracle) -> Any:
    """The model, if its sign is the decision and statements about its weights exist."""
    from capax.attention.readout import ClsMLP, ClsScalar
    from capax.attention.transformer import Transformer

    fits = isinstance(asked.model, Transformer | ClsScalar | ClsMLP) and not asked.threshold
    return asked.model if fits else None


def _holdout(asked: Oracle, data: TrainingData, delta: float) -> Iterator[Bound]:
    """Labelled examples that nobody trained on, where the data has them."""
    if data.X_holdout is not None and data.y_holdout is not None and len(data.y_holdout):
        wrong = int((asked(data.X_holdout) != (data.y_holdout > 0)).sum())
        yield holdout_bound(wrong, len(data.y_holdout), delta)


def _over_formulas(
    f: SparseFunction, data: TrainingData, delta: float, cost: float
) -> Iterator[Bound]:
    """A placement of the formula's shape, drawn from those with the fewest errors."""
    f, T = f.relevant(), data.X.shape[1]
    require(len(data.y) >= LEAST_EXAMPLES, "data", f"{LEAST_EXAMPLES} examples", len(data.y))
    require(1 <= f.s <= MAX_PLACED, "formula", f"1 to {MAX_PLACED} bits", f.s)
    best = best_placements(f, data.X, data.y)
    log_N = log_num_placements(f, T)
    # the code names a placement too: what is left of it is the price of the shape
    shape = max(0.0, description_bits(f, T) * LN_2 - log_N) * (1 + 2.0**-50)
    yield version_space_bound(
        log_N, best.count, best.m, delta, errors=best.errors, cost=cost + shape,
        predictor="the formula's shape on random surviving positions",
    )  # fmt: skip


def around_weights(
    model: Any, data: TrainingData, delta: float, cost: float, prior: Prior | None
) -> Iterator[Bound]:
    """The Gibbs predictor of weights drawn around the model's."""
    import jax

    from capax.capacity.certificates.gibbs import distance_squared, gibbs_errors

    size = 0 if prior is None else prior.size
    n = len(data.y) - size
    wanted = f"between 0 and {len(data.y) - LEAST_EXAMPLES} of {len(data.y)} examples"
    require(size >= 0 and n >= LEAST_EXAMPLES, "prior_size", wanted, size)
    with jax.enable_x64(True):  # float64 weights must not be narrowed
        start = _origin(model) if prior is None else prior.module
        distance = distance_squared(model, start)
        if _hopeless(distance, n, delta, cost):
            unknown = GibbsErrors(distance, SIGMAS, (1.0,) * len(SIGMAS), 1, n)
            note = (
                f"|theta - theta_0|^2 = {distance:.4g}: vacuous even without an error, not sampled"
            )
            yield replace(gaussian_pac_bayes_bound(unknown, delta, cost=cost), notes=(note,))
            return
        rest = data.X[size:], data.y[size:]
        tried = gibbs_errors(model, start, *rest, key=jax.random.key(0))
    yield gaussian_pac_bayes_bound(tried, delta, cost=cost)


def _hopeless(distance: float, n: int, delta: float, cost: float) -> bool:
    """Is the bound above 1/2 even if the Gibbs predictor makes no error?"""
    kl = min(gaussian_kl(distance, sigma) for sigma in SIGMAS)
    return pac_bayes_bound(0.0, kl, n, delta, cost=cost).value > 0.5


def _origin(model: Any) -> Any:
    """The same module with all weights 0: depends on no data."""
    import equinox as eqx
    import jax

    return jax.tree.map(lambda x: 0 * x if eqx.is_inexact_array(x) else x, model)


def _norms(asked: Oracle, data: TrainingData, delta: float, cost: float) -> Iterator[Bound]:
    """The best margin bound from the norms of the weights.

    Margins less their proved rounding error take seconds. With the plain ones first: a bound of 1
    or more is true whatever the margins are, and only a smaller one has to be earned.
    """
    import jax

    from capax.capacity.certificates.certificate import margins_of
    from capax.capacity.certificates.portfolio import margin_routes
    from capax.capacity.weights.model_bounds import measure

    with jax.enable_x64(True):  # float64 weights must not be narrowed while they are measured
        measured = measure(asked.model)

    def best(margins: np.ndarray) -> Bound:
        values = [float(u) for u in margins]
        answers = [route(delta / 2, cost) for route in margin_routes(measured, values)]
        return min((a for a in answers if isinstance(a, Bound)), key=lambda b: b.log_value)

    plain = best((2.0 * data.y.astype(np.float64) - 1.0) * asked.values(data.X))
    yield plain if plain.vacuous else best(margins_of(asked.model, data.X, data.y))
