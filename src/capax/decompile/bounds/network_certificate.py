"""Every route that a decompiled network, its formula and its data allow, in one portfolio."""

import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from capax.boolean.functions import SparseFunction
from capax.capacity.bound import Assumption, Bound
from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.certificates.evidence import Evidence
from capax.capacity.certificates.portfolio import Answer, Draws, Route, assemble, holdout_route
from capax.data.examples import Examples
from capax.decompile.bounds.formula_routes import FormulaCounts, formula_route, shape_route
from capax.decompile.bounds.input_law import law_assumption
from capax.decompile.reading.oracle import Oracle

DETERMINISTIC = Assumption("the model answers the same whenever it is asked the same")
FLOATS = Assumption("decisions in floating point are those of the stored weights")


def network_certificate(
    asked: Oracle,
    f: SparseFunction,
    evidence: Evidence,
    *,
    fresh: tuple[int, int],
    p: float,
    delta: float,
    draws: Draws | None = None,
) -> ErrorCertificate:
    """Bounds on the network's error, and on related predictors, together at delta.

    fresh: (disagreements with the formula, inputs); (0, 0) if the two are proved equal.
    draws: given if training sets were redrawn until one was accepted.
    """
    data = evidence.data
    assert data is not None
    by_asking = (DETERMINISTIC, *((FLOATS,) if weights_of(asked) is not None else ()))
    counted = FormulaCounts(
        int((f(data.X) != data.y).sum()), len(data.y), *fresh, (*by_asking, law_assumption(p))
    )
    routes = [formula_route(f, asked.T, counted)]
    if evidence.holdout is not None:
        routes.append(_holdout(asked, evidence, by_asking))
    routes.append(shape_route(f, data).optional())
    module = weights_of(asked)
    if module is not None:
        from capax.capacity.routes.model_routes import weights_route

        routes.append(weights_route(module, evidence).optional())
        routes += [route.optional() for route in norm_routes_on_demand(asked, data)]
    wrong = int((asked(data.X) != (data.y > 0)).sum())
    return assemble(routes, delta, draws=draws, seen=(wrong, len(data.y)))


def weights_of(asked: Oracle) -> Any:
    """The module, if statements about its weights exist and it decides by its own threshold."""
    from capax.attention.readout import ClsMLP, ClsScalar
    from capax.attention.transformer import Transformer

    fits = isinstance(asked.model, Transformer | ClsScalar | ClsMLP)
    return asked.model if fits and asked.threshold == asked.model.threshold else None


def _holdout(asked: Oracle, evidence: Evidence, assumptions: tuple[Assumption, ...]) -> Route:
    from capax.capacity.routes.model_routes import same_law

    holdout = evidence.holdout
    assert holdout is not None
    wrong = int((asked(holdout.X) != (holdout.y > 0)).sum())
    about = (*assumptions, *same_law(evidence))
    return holdout_route(wrong, len(holdout.y), looks=evidence.looks, assumptions=about)


def norm_routes_on_demand(asked: Oracle, data: Examples) -> list[Route]:
    """Both norm routes; margins with a proved rounding error only if they are needed.

    Such margins take seconds. The plain ones come first: a bound of 1 or more is always true, and
    only a smaller one needs a proof.
    """

    @functools.cache
    def routes(proved: bool) -> tuple[Route, Route]:
        import jax

        from capax.capacity.margins.margins import margins_of
        from capax.capacity.routes.certifying import norm_routes
        from capax.capacity.routes.margin_routes import margin_routes
        from capax.capacity.weights.model_bounds import measure

        if proved:
            return norm_routes(asked.model, margins_of(asked.model, data.X, data.y), asked.T)
        with jax.enable_x64(True):  # float64 weights must not be narrowed while they are measured
            return margin_routes(measure(asked.model), _plain_margins(asked, data))

    def route(number: int, name: str) -> Route:
        def ask(share: float, nats: float) -> Answer:
            quick = routes(False)[number].ask(share, nats)
            if isinstance(quick, Bound) and not quick.vacuous:
                return routes(True)[number].ask(share, nats)
            return quick

        return Route(name, ask)

    return [route(0, "uniform margin bound"), route(1, "realizable margin bound")]


def _plain_margins(asked: Oracle, data: Examples) -> Float[np.ndarray, "m"]:
    signs = 2.0 * data.y.astype(np.float64) - 1.0
    return signs * (asked.values(data.X) - asked.threshold)
