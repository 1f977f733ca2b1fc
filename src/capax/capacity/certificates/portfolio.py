"""Several routes to a bound at once, each at its share of delta; all bounds hold together.

A route gets its share of delta and a price in nats for conditioning; it returns bounds, or the
reason why it has no bound. Shares are fixed before the data: delta is divided by the weights of the
routes, and one more weight if training sets were rejected. All bounds then hold together
with probability 1 - delta, so the smallest of them may be chosen after the data is seen. They are
about different predictors: the model, a described formula, a randomised network. The best bound is
the smallest on one of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from capax.capacity.arguments import check_probability
from capax.capacity.bound import MODEL, Bound, share_of
from capax.capacity.certificates.error_certificate import ErrorCertificate, NoBound
from capax.capacity.certificates.evidence import Evidence, acceptance
from capax.capacity.certificates.tails import (
    Conditioning,
    binomial_lower,
    holdout_bound,
    price_of_conditioning,
)
from capax.capacity.margins.margin_bounds import margin_bound, realizable_bound
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.sample_points import Sample
from capax.errors import InfeasibleError, InputError, require

Answer = Bound | tuple[Bound, ...] | str
CONTRADICTION = 1e-4
"""A certificate is refused if training errors contradict it up to a chance of this size."""


@dataclass(frozen=True)
class Route:
    """A way to a bound. `ask`: (share of delta, nats for conditioning) -> bounds, or a reason.

    weight: its share of delta is this, divided by the sum of all weights.
    """

    name: str
    ask: Callable[[float, float], Answer]
    weight: int = 1

    def optional(self) -> "Route":
        """The same route; unusable models or data become its reason instead of an error."""

        def ask(share: float, nats: float) -> Answer:
            try:
                return self.ask(share, nats)
            except (InputError, InfeasibleError) as error:
                return str(error)

        return Route(self.name, ask, self.weight)


def assemble(
    routes: Sequence[Route],
    delta: float,
    *,
    draws: "Draws | None" = None,
    seen: tuple[int, int] | None = None,
    predictor: str = MODEL,
) -> ErrorCertificate:
    """Ask every route at its share of delta; delta is divided in this function only.

    draws: given if training sets were redrawn until one was accepted; the acceptance probability is
    then one more statement with a share, and every route on the training set pays ln(1/alpha).
    seen: (errors, examples) of `predictor` on its training set; a certificate that contradicts
    them has a false assumption and is refused.
    """
    check_probability("delta", delta)
    require(len(routes) > 0, "routes", "at least one route", 0)
    total = sum(route.weight for route in routes) + (draws is not None)
    price = None if draws is None else draws.price(share_of(delta, Fraction(1, total)))
    nats = 0.0 if price is None else price.cost
    entries: list[Bound] = []
    skipped: list[NoBound] = []
    for route in routes:
        share = share_of(delta, Fraction(route.weight, total))
        answer = route.ask(share, nats)
        if isinstance(answer, str):
            skipped.append(NoBound(route.name, answer, share))
        else:
            entries += [answer] if isinstance(answer, Bound) else answer
    require(len(entries) > 0, "routes", "one with a bound", "; ".join(map(str, skipped)))
    certificate = ErrorCertificate(tuple(entries), delta, predictor, tuple(skipped), price)
    if seen is not None:
        check_training_errors(certificate, *seen)
    return certificate


@dataclass(frozen=True)
class Draws:
    """Training sets drawn until one was accepted (`tries`), and further ones: (accepted, drawn)."""

    tries: int
    further: tuple[int, int] | None = None

    def price(self, delta: float) -> Conditioning:
        """The lower confidence bound of the acceptance probability, at this share of delta."""
        return price_of_conditioning(1, self.tries, delta, further=self.further)


def draws_of(evidence: Evidence) -> Draws | None:
    """The counts of rejected training sets; if the task is known, further sets are counted too."""
    data = evidence.data
    if data is None or data.tries is None:
        return None
    return Draws(data.tries, None if data.task is None else acceptance(data.task))


def check_training_errors(certificate: ErrorCertificate, errors: int, m: int) -> None:
    """Refuse a certificate that the predictor's own training errors contradict.

    A bound below the lower binomial limit of errors/m means that the examples do not follow the
    assumed law, or that the model was trained on other data.
    """
    best = certificate.best_of_each().get(certificate.predictor)
    if best is None or errors == 0:
        return
    least = binomial_lower(errors, m, math.log(CONTRADICTION))
    if best.value < least:
        raise InputError(
            f"data: {certificate.predictor} is wrong on {errors} of {m} training examples, so its "
            f"error is hardly below {least:.3g}, but {best.statement} gives {best.value:.3g}: the "
            f"training examples do not follow the assumed law (check p, the task and the labels)"
        )


def holdout_route(
    k: int, n: int, *, looks: int = 1, assumptions: tuple = (), predictor: str = MODEL
) -> Route:
    """Hold-out; conditioning of the training set costs it nothing."""

    def ask(share: float, _: float) -> Bound:
        return holdout_bound(k, n, share, looks, assumptions=assumptions, predictor=predictor)

    return Route("hold-out", ask)


def bound_from_norms(
    cls: FunctionClass,
    sample: Sample,
    *,
    margin: float,
    delta: float,
    target: float | None = None,
    cost: float = 0.0,
    more: Sequence[Route] = (),
) -> ErrorCertificate:
    """Both margin bounds for norms and a margin that are given, not measured on data."""

    def at(name: str, bound: Callable[..., Bound]) -> Route:
        return Route(
            name,
            lambda share, paid: bound(cls, sample, margin, share, cost=cost + paid, target=target),
        )

    norms = (
        at("uniform margin bound", margin_bound),
        at("realizable margin bound", realizable_bound),
    )
    return assemble([*norms, *more], delta)
