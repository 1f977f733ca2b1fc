"""Times that grow with x, known up to an interval or censored: likelihood, best fit, interval.

**Model.** A share p of the runs is never solved. The time t of the others has

    ln t = k + a x + sigma e

with noise e of one of three shapes: times that are log-normal, log-logistic or Weibull. sigma and p
may differ between groups of runs. A run that was unsolved at one look and solved at the next one
contributes the probability of that interval. A run that was stopped contributes the probability of
a longer time, p included.

**Interval of a.** All a whose likelihood, maximised over the rest, is close to the largest one:
twice the difference of logarithms is at most the 95% quantile of chi-square with one degree of
freedom. If the line does not fit (the deviance from free positions is larger than its degrees of
freedom), this limit grows with the lack of fit. `benchmarks/times_coverage.py` simulates the
coverage of the interval.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.special import chdtrc, chdtri, expit, logit, ndtr

from capax.analysis.times.solve_times import RunTimes

_Function = Callable[[ndarray], ndarray]


class Noise(NamedTuple):
    """Probability that the noise exceeds e, its density, and the median of the noise."""

    beyond: _Function
    density: _Function
    median: float


def _weibull_density(e: ndarray) -> ndarray:
    capped = np.minimum(e, 700.0)
    return np.exp(capped - np.exp(capped))


SHAPES = {
    "log-normal": Noise(
        lambda e: ndtr(-e), lambda e: np.exp(-e * e / 2) / math.sqrt(2 * math.pi), 0.0
    ),
    "log-logistic": Noise(lambda e: expit(-e), lambda e: expit(e) * expit(-e), 0.0),
    "Weibull": Noise(
        lambda e: np.exp(-np.exp(np.minimum(e, 700.0))),
        _weibull_density,
        math.log(math.log(2.0)),
    ),
}

_Loss = tuple[float, ndarray, ndarray]
_LEAST = 1e-300
_LIMIT = float(chdtri(1, 0.05))
_STEEPEST = 40.0  # an interval that ends beyond this exponent counts as open
_CLOSE = 2e-4
_SPREADS = (math.log(0.01), math.log(10.0))
_NEVERS = (-9.0, 9.0)  # logits of p


@dataclass(frozen=True)
class TimeSample:
    """All runs of a fit: intervals of their log times, their x, the numbers of cell and group."""

    after: Float[ndarray, " n"]
    by: Float[ndarray, " n"]
    x: Float[ndarray, " n"]
    cell: Int[ndarray, " n"]
    group: Int[ndarray, " n"]

    @staticmethod
    def of(cells: Sequence[RunTimes], x: Sequence[float], groups: Sequence[int]) -> "TimeSample":
        """Runs of `cells`, each with one x and the number of its group."""
        sizes = [cell.by.size for cell in cells]
        with np.errstate(divide="ignore"):
            after = np.log(np.concatenate([cell.after for cell in cells]))
        return TimeSample(
            after,
            np.log(np.concatenate([cell.by for cell in cells])),
            np.repeat(np.asarray(x, float), sizes),
            np.repeat(np.arange(len(cells)), sizes),
            np.repeat(np.asarray(groups), sizes),
        )

    @cached_property
    def solved(self) -> "ndarray":
        return np.isfinite(self.by)

    @property
    def seen(self) -> int:
        """Cells with a solved run: only these have a position."""
        return len(np.unique(self.cell[self.solved]))

    @property
    def groups(self) -> int:
        return int(self.group.max()) + 1

    def loss(self, at: ndarray, log_spread: ndarray, logit_never: ndarray, shape: str) -> _Loss:
        """Minus the log-likelihood of positions `at`, one for each run; and its slopes in the
        positions, and in spreads and nevers by group."""
        beyond, density, _ = SHAPES[shape]
        spread, never = np.exp(log_spread)[self.group], expit(logit_never)[self.group]
        one, two = (self.after - at) / spread, (self.by - at) / spread
        early, late = beyond(one), beyond(two)
        chance = np.where(self.solved, (1 - never) * (early - late), never + (1 - never) * early)
        value = -float(np.log(np.maximum(chance, _LEAST)).sum())
        weight = np.where(chance > _LEAST, (never - 1) / np.maximum(chance, _LEAST), 0.0)
        dense, later = density(one), density(two)  # 0 where a run was never or always unsolved
        moved = weight * (dense - later) / spread
        spread_out = weight * (_times(one, dense) - _times(two, later))
        lost = weight * never * np.where(self.solved, late - early, 1 - early)
        by_group = partial(np.bincount, self.group, minlength=self.groups)
        return value, moved, np.concatenate([by_group(spread_out), by_group(lost)])


def _times(e: ndarray, dense: ndarray) -> ndarray:
    """e times the density at e, which vanishes at infinity."""
    return np.where(np.isfinite(e), e, 0.0) * dense


@dataclass(frozen=True)
class Line:
    """The likeliest line: ln t = start + exponent x for the median of the solved runs."""

    shape: str
    loss: float
    start: float
    exponent: float
    low: float | None
    high: float | None
    spread: Float[ndarray, " groups"]
    never: Float[ndarray, " groups"]
    p_fit: float | None


def fitted_line(sample: TimeSample) -> Line:
    """The likeliest line, with the shape of noise that is likeliest for free positions."""
    free, shape = min((_free_loss(sample, shape), shape) for shape in SHAPES)
    best = _LineFit(sample, shape)
    loss, found = best.at_best()
    freedom = sample.seen - 2
    lost = max(0.0, 2 * (loss - free))
    limit = _LIMIT * (max(1.0, lost / freedom) if freedom > 0 else 1.0)
    exponent, centre = float(found[1]), float(found[0])
    log_spread, logit_never = np.split(found[2:], 2)
    low, high = (best.end(found, loss, side, limit) for side in (-1, 1))
    spread = np.exp(log_spread)
    return Line(
        shape, loss,
        centre - exponent * best.middle + float(spread.mean()) * SHAPES[shape].median,
        exponent, low, high, spread, expit(logit_never),
        float(chdtrc(freedom, lost)) if freedom > 0 else None,
    )  # fmt: skip


def _free_loss(sample: TimeSample, shape: str) -> float:
    """Smallest loss with a position of its own for every cell."""
    cells = int(sample.cell.max()) + 1
    typical = np.where(sample.solved, sample.by, sample.after)
    start = [np.median(typical[sample.cell == cell]) for cell in range(cells)]
    top = float(typical.max()) + 3.0
    bounds = [(-2.0, top)] * cells

    def loss(point: ndarray) -> tuple[float, ndarray]:
        log_spread, logit_never = np.split(point[cells:], 2)
        at = point[:cells][sample.cell]
        value, moved, rest = sample.loss(at, log_spread, logit_never, shape)
        return value, np.concatenate([np.bincount(sample.cell, moved, cells), rest])

    return _smallest(loss, np.array(start), bounds, sample)[0]


@dataclass(frozen=True)
class _LineFit:
    """Lines through a sample. A point is (position at the middle x, exponent, spreads, nevers)."""

    sample: TimeSample
    shape: str

    @cached_property
    def middle(self) -> float:
        return float(self.sample.x[self.sample.solved].mean())

    def loss(self, point: ndarray) -> tuple[float, ndarray]:
        log_spread, logit_never = np.split(point[2:], 2)
        x = self.sample.x - self.middle
        value, moved, rest = self.sample.loss(
            point[0] + point[1] * x, log_spread, logit_never, self.shape
        )
        return value, np.array([moved.sum(), moved @ x, *rest])

    def at_best(self) -> tuple[float, ndarray]:
        sample = self.sample
        x, y = sample.x[sample.solved] - self.middle, sample.by[sample.solved]
        slope = float((x * y).sum() / max((x * x).sum(), 1e-12))
        start = np.array([y.mean(), slope])
        return _smallest(self.loss, start, [(-30.0, 60.0), (-_STEEPEST, _STEEPEST)], sample)

    def at_exponent(self, exponent: float, *starts: ndarray) -> tuple[float, ndarray]:
        """The smallest loss at a given exponent, from the rest of each point of `starts`."""

        def loss(rest: ndarray) -> tuple[float, ndarray]:
            value, slopes = self.loss(np.insert(rest, 1, exponent))
            return value, np.delete(slopes, 1)

        from scipy.optimize import minimize  # most who load this module fit nothing

        bounds = [(-30.0, 60.0), *_noise_bounds(self.sample)]
        found = min(
            (
                minimize(loss, np.delete(start, 1), jac=True, method="L-BFGS-B", bounds=bounds)
                for start in starts
            ),
            key=lambda result: result.fun,
        )
        return float(found.fun), np.insert(found.x, 1, exponent)

    def end(self, best: ndarray, loss: float, side: int, limit: float) -> float | None:
        """The exponent at which twice the lost log-likelihood reaches `limit`, on one side.

        `None` if it never does. Accurate to `_CLOSE`, on the outer side.
        """
        inner, step, point = float(best[1]), 0.05, best
        while True:
            outer = inner + side * step
            value, point = self.at_exponent(outer, point, best)
            if 2 * (value - loss) > limit:
                break
            inner, step = outer, 1.5 * step
            if abs(inner) > _STEEPEST:
                return None
        while abs(outer - inner) > _CLOSE:
            middle = (inner + outer) / 2
            value, point = self.at_exponent(middle, point, best)
            inner, outer = (inner, middle) if 2 * (value - loss) > limit else (middle, outer)
        return outer


def _noise_bounds(sample: TimeSample) -> list[tuple[float, float]]:
    return [_SPREADS] * sample.groups + [_NEVERS] * sample.groups


def _smallest(
    loss: Callable[[ndarray], tuple[float, ndarray]],
    start: ndarray,
    bounds: list[tuple[float, float]],
    sample: TimeSample,
) -> tuple[float, ndarray]:
    """The better of two searches: stopped runs are solved later, or never."""
    from scipy.optimize import minimize

    unsolved = float(np.clip(1 - sample.solved.mean(), 0.01, 0.95))
    found = []
    for never in (0.001, 0.9 * unsolved):
        noise = [math.log(0.4)] * sample.groups + [float(logit(never))] * sample.groups
        result = minimize(
            loss,
            np.concatenate([start, noise]),
            jac=True,
            method="L-BFGS-B",
            bounds=[*bounds, *_noise_bounds(sample)],
        )
        found.append((float(result.fun), result.x))
    return min(found, key=lambda pair: pair[0])
