"""The two norm routes of a measured model: the uniform and the realizable margin bound."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Num

from capax.capacity.bound import Assumption, Bound
from capax.capacity.certificates.portfolio import Answer, Route
from capax.capacity.margins.margin_bounds import margin_bound, ramp_loss, realizable_bound
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.a_posteriori import GRID, round_up
from capax.capacity.weights.measured import MeasuredModel
from capax.errors import require

QUANTILES = (0.0, 0.1, 0.5, 1.0)
Margins = Sequence[float] | Float[np.ndarray, "m"]


@dataclass(frozen=True)
class _Observed:
    """Training margins with their counts, and the settings both norm routes share."""

    measured: MeasuredModel
    margins: Float[np.ndarray, "k"]
    counts: Num[np.ndarray, "k"]
    g: float
    target: float | None
    assumptions: tuple[Assumption, ...]

    @property
    def sample(self) -> Sample:
        return self.measured.sample(int(self.counts.sum()))


def margin_routes(
    measured: MeasuredModel,
    margins: Margins,
    *,
    counts: Num[np.ndarray, "k"] | None = None,
    g: float = GRID,
    target: float | None = None,
    assumptions: tuple[Assumption, ...] = (),
) -> tuple[Route, Route]:
    """The two norm routes of a measured model on its training margins u_i = y_i f(x_i).

    counts: how often each margin occurs (default: once). assumptions: about the margins themselves.
    """
    values = np.asarray(margins, np.float64)
    require(len(values) > 0, "margins", "at least one training sequence", len(values))
    require(bool(np.isfinite(values).all()), "margins", "finite numbers", "NaN or infinite")

    times = np.ones(len(values), np.int64) if counts is None else np.asarray(counts)
    require(times.shape == values.shape and bool((times > 0).all()), "counts",
            "a positive count for every margin", times.shape)  # fmt: skip
    seen = _Observed(measured, values, times, g, target, assumptions)

    def realizable(share: float, nats: float) -> Answer:
        if values.min() <= 0:
            wrong = int(times[values <= 0].sum())
            return f"{wrong} training margins are not positive"
        return _realizable_entry(seen, share, nats)

    return (
        Route("uniform margin bound", lambda share, nats: _uniform_entry(seen, share, nats)),
        Route("realizable margin bound", realizable),
    )


def _class_at(
    measured: MeasuredModel, margin: float, g: float
) -> tuple[FunctionClass, float, float]:
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
                target=wanted, assumptions=seen.assumptions,
            )
        )  # fmt: skip
    return min(bounds, key=lambda bound: bound.log_value)


def _realizable_entry(seen: _Observed, delta: float, paid: float) -> Bound:
    cls, margin, cost = _class_at(seen.measured, float(seen.margins.min()), seen.g)
    return realizable_bound(
        cls, seen.sample, margin, delta, cost=cost + paid, separated=True, target=seen.target,
        assumptions=seen.assumptions,
    )  # fmt: skip
