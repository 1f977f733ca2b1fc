"""Several bounds at once, each at its share of delta; a minimum only over the same predictor.

A route is asked for a bound at its share of delta (fixed before the data: delta by the number of
routes asked) and at a price in nats for conditioning; it answers with bounds, or with the reason
why it has none. All bounds hold together with probability 1 - delta. They are about different
predictors: the model, a described formula, a randomised network. The best bound is the smallest on
one of them; bounds on others stand beside it and are never mixed in.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Num

from capax.capacity.arguments import check_probability
from capax.capacity.bound import MODEL, Bound, best_of
from capax.capacity.certificates.margin_bounds import margin_bound, ramp_loss, realizable_bound
from capax.capacity.certificates.tails import (
    Conditioning,
    holdout_bound,
    occam_tail_bound,
    price_of_conditioning,
)
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.a_posteriori import GRID, round_up
from capax.capacity.weights.measured import Measured
from capax.errors import require
from capax.html import html_table

Answer = Bound | tuple[Bound, ...] | str
Route = Callable[[float, float], Answer]
"""(share of delta, nats for conditioning) -> bounds, or why there is none."""
QUANTILES = (0.0, 0.1, 0.5, 1.0)
Margins = Sequence[float] | Float[np.ndarray, "m"]


@dataclass(frozen=True)
class Certificate:
    """Bounds that hold together with probability 1 - delta, and the smallest on `predictor`.

    skipped: routes that were asked and have no bound, with the reason; their share is spent.

    Examples:
        >>> import capax
        >>> found = capax.bound("W_QK=2,v=1", T=1000, m=100_000, margin=0.5)
        >>> found.delta, len(found.entries) >= 2
        (0.05, True)
    """

    entries: tuple[Bound, ...]
    delta: float
    predictor: str = MODEL
    skipped: tuple[str, ...] = ()
    conditioning: Conditioning | None = None

    def __post_init__(self) -> None:
        check_probability("delta", self.delta)
        require(len(self.entries) > 0, "entries", "at least one bound", 0)
        spent = math.fsum(entry.delta or 0.0 for entry in self.entries)
        spent += 0.0 if self.conditioning is None else self.conditioning.delta
        known = all(entry.delta is not None for entry in self.entries)
        fits = known and spent <= self.delta * (1 + 1e-9)
        require(fits, "entries", f"shares that add up to delta = {self.delta:g}", spent)

    def _repr_html_(self) -> str:
        rows = [(e.statement, e.verdict, e.status, e.predictor, f"{e.delta:.3g}")
                for e in self.entries]  # fmt: skip
        first = f"with probability {1 - self.delta:g}: error <= {self.best.verdict}"
        head = ("route", "error <=", "kind", "about", "delta spent")
        return html_table(rows, head=head, title=first, notes=self.skipped)

    def _repr_latex_(self) -> str:
        return self.best._repr_latex_()

    @property
    def best(self) -> Bound:
        """The smallest bound on the predictor in question (the first one's if it has none)."""
        of_all = self.best_of_each()
        return of_all.get(self.predictor) or of_all[self.entries[0].predictor]

    def best_of_each(self) -> dict[str, Bound]:
        """Predictor -> the smallest bound on it."""
        names = dict.fromkeys(entry.predictor for entry in self.entries)
        return {name: best_of(e for e in self.entries if e.predictor == name) for name in names}

    @property
    def vacuous(self) -> bool:
        """No bound on the predictor in question is below 1."""
        return self.best.vacuous

    @property
    def m_needed(self) -> int | None:
        """Samples at which a bound on the predictor in question reaches the target."""
        about = self.best.predictor
        needed = (b.m_needed for b in self.entries if b.predictor == about)
        return min((m for m in needed if m is not None), default=None)

    @property
    def union_cost(self) -> float:
        """Nats that sharing delta with the other routes adds to the best bound's ln(1/delta)."""
        return math.log(self.delta / (self.best.delta or self.delta))

    def rows(self) -> list[dict[str, Any]]:
        """The table: route, value, predictor, delta spent, what is assumed, samples needed."""
        return [_row(entry) for entry in self.entries]

    def explain(self, style: str = "text") -> str:
        """The best bound written out, then one line for each of the others."""
        if style == "latex":
            return self.best.explain("latex")
        lines = [
            self.headline(),
            self.best.explain(),
            f"sharing delta costs {self.union_cost:.3g} nats in ln(1/delta); all bounds:",
        ]
        lines += [
            f"  {entry.verdict:>22}  {entry.statement} [{entry.status}]: error of {entry.predictor}"
            for entry in self.entries
        ]
        return "\n".join([*lines, *(f"  no bound: {reason}" for reason in self.skipped)])

    def headline(self) -> str:
        """One line: the probability, the predictor, its best bound."""
        best = self.best
        promise = f"error of {best.predictor} <= {best.verdict} [{best.status}]"
        return f"with probability {1 - self.delta:g}: {promise}"

    def to_json(self) -> dict[str, Any]:
        """The best bound's keys, the whole table, and what was spent on what."""
        price = self.conditioning
        return {
            **self.best.to_json(),
            "m_needed": self.m_needed,
            "delta": self.delta,
            "union_cost": self.union_cost,
            "portfolio": self.rows(),
            "best_of_each_predictor": {
                name: bound.to_json()["value"] for name, bound in self.best_of_each().items()
            },
            "skipped": list(self.skipped),
            "conditioning": None
            if price is None
            else {
                "accepted": price.accepted, "tries": price.tries, "alpha_at_least": price.alpha,
                "cost_in_nats": price.cost, "delta": price.delta,
            },
        }  # fmt: skip


def _row(entry: Bound) -> dict[str, Any]:
    content = entry.to_json()
    return {
        "statement": entry.statement,
        "value": content["value"],
        "log10_value": content["log10_value"],
        "status": entry.status,
        "vacuous": entry.vacuous,
        "predictor": entry.predictor,
        "delta": entry.delta,
        "assumes": [a.text for a in entry.assumptions if a.holds is not True],
        "checked": [a.text for a in entry.assumptions if a.holds is True],
        "m_needed": entry.m_needed,
    }


def assemble(
    routes: Sequence[Route], delta: float, *, tries: int | None = None, predictor: str = MODEL
) -> Certificate:
    """Ask every route at an equal share of delta.

    tries: training sets drawn until this one was accepted; the acceptance probability is then one
    more statement with a share, and every route on the training set pays ln(1/alpha).
    """
    check_probability("delta", delta)
    require(len(routes) > 0, "routes", "at least one route", 0)
    share = delta / (len(routes) + (tries is not None))
    price = None if tries is None else price_of_conditioning(1, tries, share)
    answers = [route(share, 0.0 if price is None else price.cost) for route in routes]
    skipped = tuple(answer for answer in answers if isinstance(answer, str))
    found = [(a,) if isinstance(a, Bound) else a for a in answers if not isinstance(a, str)]
    entries = tuple(bound for group in found for bound in group)
    return Certificate(entries, delta, predictor, skipped, price)


@dataclass(frozen=True)
class _Observed:
    """Training margins with their counts, and the settings both norm routes share."""

    measured: Measured
    margins: Float[np.ndarray, "k"]
    counts: Num[np.ndarray, "k"]
    g: float
    target: float | None

    @property
    def sample(self) -> Sample:
        return self.measured.sample(int(self.counts.sum()))


def margin_routes(
    measured: Measured,
    margins: Margins,
    *,
    counts: Num[np.ndarray, "k"] | None = None,
    g: float = GRID,
    target: float | None = None,
) -> tuple[Route, Route]:
    """The two norm routes of a measured model on its training margins u_i = y_i f(x_i).

    counts: how often each margin occurs (default: once).
    """
    values = np.asarray(margins, np.float64)
    require(len(values) > 0, "margins", "at least one training sequence", len(values))
    require(bool(np.isfinite(values).all()), "margins", "finite numbers", "NaN or infinite")

    times = np.ones(len(values), np.int64) if counts is None else np.asarray(counts)
    require(times.shape == values.shape and bool((times > 0).all()), "counts",
            "a positive count for every margin", times.shape)  # fmt: skip
    seen = _Observed(measured, values, times, g, target)

    def uniform(share: float, cost: float) -> Answer:
        return _uniform_entry(seen, share, cost)

    def realizable(share: float, cost: float) -> Answer:
        if values.min() <= 0:
            wrong = int(times[values <= 0].sum())
            return f"realizable margin bound: {wrong} training margins are not positive"
        return _realizable_entry(seen, share, cost)

    return uniform, realizable


def holdout_route(k: int, n: int, *, looks: int = 1, predictor: str = MODEL) -> Route:
    """Hold-out; conditioning of the training set costs it nothing."""
    return lambda share, _: holdout_bound(k, n, share, looks, predictor=predictor)


def certify_margins(
    measured: Measured,
    margins: Margins,
    *,
    delta: float = 0.05,
    g: float = GRID,
    target: float | None = None,
    described: tuple[int, int] | None = None,
    holdout: tuple[int, int] | None = None,
    tries: int | None = None,
    more: Sequence[Route] = (),
) -> Certificate:
    """The portfolio from measured quantities and training margins u_i = y_i f(x_i).

    described: (bits, training errors) of a described version, which is another predictor. holdout:
    (errors, examples) of the model on examples it never saw. tries: see `assemble`.
    """
    routes: list[Route] = [*margin_routes(measured, margins, g=g, target=target)]
    m = len(margins)
    if described is not None:
        bits, k = described
        routes.append(lambda s, cost: occam_tail_bound(k, m, bits, s, cost=cost, target=target))
    if holdout is not None:
        routes.append(holdout_route(*holdout))
    return assemble([*routes, *more], delta, tries=tries)


def _class_at(measured: Measured, margin: float, g: float) -> tuple[FunctionClass, float, float]:
    """The class on its grid, the margin on its grid (rounded down), and the cost of both."""
    cls, grid = measured.rounded(g)
    inverse = round_up({"1/margin": (1 + 1e-9) / margin}, g=g)
    return cls, 1.0 / inverse.values["1/margin"], grid.cost + inverse.cost


def _uniform_entry(seen: _Observed, delta: float, paid: float) -> Bound:
    """The uniform bound at the best of a few margins; every grid margin is paid for already."""
    positive = np.sort(seen.margins[seen.margins > 0])
    guesses = {float(positive[int(q * (len(positive) - 1))]) for q in QUANTILES if len(positive)}
    bounds = []
    for guess in sorted(guesses or {1.0}):
        cls, margin, cost = _class_at(seen.measured, guess, seen.g)
        loss = ramp_loss(seen.margins, margin, seen.counts)
        wanted = seen.target if seen.target is not None and loss < seen.target else None
        bounds.append(
            margin_bound(
                cls, seen.sample, margin, delta, training_loss=loss, cost=cost + paid,
                target=wanted,
            )
        )  # fmt: skip
    return min(bounds, key=lambda bound: bound.log_value)


def _realizable_entry(seen: _Observed, delta: float, paid: float) -> Bound:
    cls, margin, cost = _class_at(seen.measured, float(seen.margins.min()), seen.g)
    return realizable_bound(
        cls, seen.sample, margin, delta, cost=cost + paid, separated=True, target=seen.target
    )


def bound_from_norms(
    cls: FunctionClass,
    sample: Sample,
    *,
    margin: float,
    delta: float,
    target: float | None = None,
    cost: float = 0.0,
    more: Sequence[Route] = (),
) -> Certificate:
    """Both margin bounds for norms and a margin that are given, not measured on data."""

    def at(bound: Callable[..., Bound]) -> Route:
        return lambda share, paid: bound(
            cls, sample, margin, share, cost=cost + paid, target=target
        )

    return assemble([at(margin_bound), at(realizable_bound), *more], delta)
