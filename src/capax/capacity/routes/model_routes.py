"""Routes that a module and its evidence allow besides norms: read-out, family, PAC-Bayes.

PAC-Bayes around the weights: a Gaussian around the model, the prior around a network trained on
the first examples only, or around the origin without one. A KL that is vacuous even for a
perfect Gibbs predictor is not sampled: its error is taken to be 1.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from capax.attention.readout import ClsMLP, ClsScalar
from capax.attention.stack import PaperStack
from capax.attention.transformer import Transformer
from capax.boolean.parser import parse
from capax.capacity.bound import Assumption, Bound
from capax.capacity.certificates.best_placements import best_placements
from capax.capacity.certificates.evidence import Evidence
from capax.capacity.certificates.gibbs import distance_squared, gibbs_errors
from capax.capacity.certificates.linear_readout import linear_readout_bound
from capax.capacity.certificates.pac_bayes import (
    LEAST_EXAMPLES,
    SIGMAS,
    GibbsErrors,
    gaussian_kl,
    gaussian_pac_bayes_bound,
    pac_bayes_bound,
)
from capax.capacity.certificates.portfolio import Route, holdout_route
from capax.capacity.margins.decision import threshold_of
from capax.capacity.margins.margins import check_examples, holdout_errors, in_float64
from capax.data.examples import Examples
from capax.errors import InputError, require

READ_OUTS = {ClsScalar: ("w",), ClsMLP: ("w_2", "b_2"), Transformer: ("w", "b"), PaperStack: ("w",)}
SAME_LAW = Assumption("hold-out and training examples follow one distribution, labels included")


def evidence_routes(module: Any, evidence: Evidence) -> list[Route]:
    """Every route that the evidence asks for, besides the two from norms."""
    routes: list[Route] = []
    data, holdout = evidence.data, evidence.holdout
    if holdout is not None:
        counted = holdout_errors(module, holdout.X, holdout.y)
        assumed = same_law(evidence)
        routes.append(holdout_route(*counted, looks=evidence.looks, assumptions=assumed))
    if data is None:
        return routes
    if evidence.frozen:
        routes.append(read_out_route(module, data))
    if evidence.family is not None:
        routes.append(family_route(evidence.family, data))
    if evidence.prior is not None:
        routes.append(weights_route(module, evidence))
    return routes


def same_law(evidence: Evidence) -> tuple[Assumption, ...]:
    """Hold-out and training examples follow one law: known if both come from one task."""
    data, holdout = evidence.data, evidence.holdout
    if data is None or holdout is None or (data.task is not None and data.task == holdout.task):
        return ()
    return (SAME_LAW,)


def family_route(family: str, data: Examples) -> Route:
    """Placements of one formula on the positions, as predictors of their own."""
    f = parse(family)
    require(f.s <= data.X.shape[1], "--family", f"at most {data.X.shape[1]} variables", f.s)
    best = best_placements(f, data.X, data.y)
    return Route("family", lambda share, nats: best.bounds(family, share, cost=nats))


def weights_route(module: Any, evidence: Evidence) -> Route:
    """PAC-Bayes around the weights, on the examples that the prior has not seen."""
    data, size = evidence.data, evidence.prior_size if evidence.prior is not None else 0
    assert data is not None
    n = len(data.y) - size
    wanted = f"between 0 and {len(data.y) - LEAST_EXAMPLES} of {len(data.y)} examples"

    def ask(share: float, nats: float) -> Bound:
        require(size >= 0 and n >= LEAST_EXAMPLES, "prior_size", wanted, size)
        with jax.enable_x64(True):  # float64 weights must not be narrowed
            start = _origin(module) if evidence.prior is None else evidence.prior
            distance = distance_squared(module, start)
            if _hopeless(distance, n, share, nats):
                return _not_sampled(distance, n, share, nats)
            rest = data.X[size:], data.y[size:]
            tried = gibbs_errors(module, start, *rest, key=jax.random.key(0))
        return gaussian_pac_bayes_bound(tried, share, cost=nats)

    return Route("PAC-Bayes around the weights", ask)


def _hopeless(distance: float, n: int, delta: float, cost: float) -> bool:
    """Is the bound above 1/2 even if the Gibbs predictor makes no error?"""
    kl = min(gaussian_kl(distance, sigma) for sigma in SIGMAS)
    return pac_bayes_bound(0.0, kl, n, delta, cost=cost).value > 0.5


def _not_sampled(distance: float, n: int, delta: float, cost: float) -> Bound:
    unknown = GibbsErrors(distance, SIGMAS, (1.0,) * len(SIGMAS), 1, n)
    note = f"|theta - theta_0|^2 = {distance:.4g}: vacuous even without an error, not sampled"
    return replace(gaussian_pac_bayes_bound(unknown, delta, cost=cost), notes=(note,))


def _origin(model: Any) -> Any:
    """The same module with all weights 0: depends on no data."""
    return jax.tree.map(lambda x: np.zeros_like(x) if eqx.is_inexact_array(x) else x, model)


def read_out_route(model: Any, data: Examples) -> Route:
    """The direct linear bound, for a model whose read-out alone was trained on these data.

    f is linear in its read-out w, so the features are the gradient by w. A threshold other than 0
    is taken off the intercept, which has the feature 1.
    """
    names = READ_OUTS.get(type(model))
    if names is None:
        known = ", ".join(kind.__name__ for kind in READ_OUTS)
        raise InputError(f"model: no linear read-out in {type(model).__name__}; wanted {known}")
    check_examples(data.X, data.y)
    with jax.enable_x64(True):
        found = _features(model, names, data.X.astype(np.int32))
        features = np.concatenate([np.asarray(z).reshape(len(data.X), -1) for z in found], axis=1)
        read_out = _parts(in_float64(model), names)
        w = np.concatenate([np.asarray(part).reshape(-1) for part in read_out])
    threshold = threshold_of(model)
    if threshold:
        require(names[-1] == "b_2", "threshold", "an intercept that takes it up", threshold)
        w[-1] -= threshold
    signs = 2.0 * data.y.astype(np.float64) - 1.0
    return Route(
        "linear read-out",
        lambda share, nats: linear_readout_bound(features, w, signs, share, cost=nats),
    )


def _parts(module: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(getattr(module, name) for name in names)


@eqx.filter_jit
def _features(model: Any, names: tuple[str, ...], bits: Any) -> tuple[Any, ...]:
    """The slope of the output in each part of the read-out, on each row of bits."""
    precise = in_float64(model)

    def output(w: Any, row: Any) -> Any:
        return eqx.tree_at(lambda module: _parts(module, names), precise, w)(row)

    return jax.vmap(jax.grad(output), (None, 0))(_parts(precise, names), bits)
