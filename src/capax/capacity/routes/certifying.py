"""From a trained model and its data to "with probability 1 - delta, error <= ...".

The model is measured by its type, its margins are computed on the data it was trained on, and the
portfolio of bounds (`portfolio`) divides delta among the routes.
"""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import jax
import numpy as np
from jaxtyping import Num

from capax.capacity.bound import MODEL
from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.certificates.portfolio import Draws, Route, assemble, holdout_route
from capax.capacity.certificates.tails import occam_tail_bound
from capax.capacity.margins.margins import margins_of, rounding_assumption
from capax.capacity.routes.margin_routes import Margins, margin_routes
from capax.capacity.weights.a_posteriori import GRID
from capax.capacity.weights.measured import MeasuredModel
from capax.capacity.weights.model_bounds import measure


class CountedErrors(TypedDict, total=False):
    """Counts besides the margins; see `certify`."""

    described: tuple[int, int] | None
    holdout: tuple[int, int] | None
    tries: int | None


def certify(
    model: Any,
    X: Num[np.ndarray, "m T"],
    y: Num[np.ndarray, "labels"],
    *,
    delta: float = 0.05,
    target: float | None = None,
    described: tuple[int, int] | None = None,
    holdout: tuple[int, int] | None = None,
    tries: int | None = None,
    more: Sequence[Route] = (),
) -> ErrorCertificate:
    """Certificate of a trained module of `capax.attention` on the data it was trained on.

    described: (bits, training errors) of a described (rounded, pruned) version, for Occam; a
    predictor of its own. holdout: (errors, examples) of the model on data it never saw, see
    `holdout_errors`. tries: training sets drawn until this one was accepted. more: further routes.

    Examples:
        >>> import capax
        >>> trained = capax.train("x1 & x3", T=7, m=60, steps=200, model={"d": 16, "heads": 4})
        >>> found = capax.certify(trained.model, trained.task.X_train, trained.task.y_train)
        >>> 0 < found.best.value
        True
    """
    margins = margins_of(model, X, y)
    routes = [*norm_routes(model, margins, X.shape[1], target), *more]
    wrong = int((margins <= 0).sum())
    counted = CountedErrors(described=described, holdout=holdout, tries=tries)
    return _portfolio(routes, (wrong, len(margins)), delta, target, counted)


def norm_routes(
    model: Any, margins: Margins, T: int, target: float | None = None
) -> tuple[Route, Route]:
    """Both margin bounds of a module from its norms, on margins less their rounding error."""
    with jax.enable_x64(True):  # float64 weights must not be narrowed while they are measured
        measured = measure(model)
    proved = (rounding_assumption(model, T),)
    return margin_routes(measured, margins, target=target, assumptions=proved)


def certify_margins(
    measured: MeasuredModel,
    margins: Margins,
    *,
    delta: float = 0.05,
    g: float = GRID,
    target: float | None = None,
    more: Sequence[Route] = (),
    **counted: Unpack[CountedErrors],
) -> ErrorCertificate:
    """The portfolio from measured quantities and training margins u_i = y_i f(x_i).

    described, holdout, tries, more: see `certify`.
    """
    routes = [*margin_routes(measured, margins, g=g, target=target), *more]
    wrong = int((np.asarray(margins) <= 0).sum())
    return _portfolio(routes, (wrong, len(margins)), delta, target, counted)


def _portfolio(
    routes: list[Route],
    seen: tuple[int, int],
    delta: float,
    target: float | None,
    counted: CountedErrors,
) -> ErrorCertificate:
    """seen: training errors and training examples."""
    described, holdout = counted.get("described"), counted.get("holdout")
    tries, m = counted.get("tries"), seen[1]
    if described is not None:
        bits, k = described
        routes.append(
            Route(
                "Occam", lambda s, cost: occam_tail_bound(k, m, bits, s, cost=cost, target=target)
            )
        )
    if holdout is not None:
        routes.append(holdout_route(*holdout))
    draws = None if tries is None else Draws(tries)
    return assemble(routes, delta, draws=draws, seen=seen, predictor=MODEL)
