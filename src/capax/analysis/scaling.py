"""How does the threshold grow with T? Four laws, weighed against each other.

    constant   m* = a
    log        m* = a + b ln T
    linear     m* = a + b T
    power      m* = a + b (T^c - 1)/c        (c -> 0 is the log law, c = 1 the linear one)

Each law is fitted by weighted least squares, the weight of a point taken from its 95% interval
(standard error of log m* = log(high/low) / 3.92). The errors being known, -2 log L = χ² + const:

    AIC = χ² + 2k,     weight ∝ exp(-AIC/2)     (k parameters).

The small-sample term of AICc corrects for an estimated variance; none is estimated here, and with
few values of T it would favour the constant law whatever the data say.
Intervals are the parameter values with Δχ² <= 3.84 when the other parameters are refitted.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer
from numpy import ndarray

from capax.errors import require

LAWS = ("constant", "log", "linear", "power")
_FORMULAS = {
    "constant": "m* = a",
    "log": "m* = a + b ln T",
    "linear": "m* = a + b T",
    "power": "m* = a + b (T^c - 1)/c",
}
_Z = 1.959963984540054
_CHI2 = _Z**2
_EXPONENTS = np.round(np.arange(-1.0, 2.0001, 0.01), 2)


@dataclass(frozen=True)
class Point:
    """One measured threshold with its 95% interval."""

    T: int
    m_star: float
    low: float
    high: float

    def __post_init__(self) -> None:
        require(self.T >= 1, "T", "at least 1", self.T)
        ordered = 0 < self.low <= self.m_star <= self.high
        require(
            ordered, "interval", "0 < low <= m_star <= high", (self.low, self.m_star, self.high)
        )

    @property
    def error(self) -> float:
        """Standard error of m*; at least that of rounding to a whole number."""
        measured = self.m_star * math.log(self.high / self.low) / (2 * _Z)
        return math.hypot(measured, 1 / math.sqrt(12))


@dataclass(frozen=True)
class Parameter:
    """A fitted parameter and its 95% interval; `None` where the side is open."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Fit:
    """One law fitted to the points."""

    law: str
    formula: str
    parameters: tuple[Parameter, ...]
    chi2: float
    aic: float
    weight: float

    def predict(self, T: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """m* of the fitted law at T."""
        values = {p.name: p.value for p in self.parameters}
        return values["a"] + values.get("b", 0.0) * _rising(self.law, T, values.get("c", 1.0))


@dataclass(frozen=True)
class Scaling:
    """All laws in the order of their weight, and what to say about them."""

    fits: tuple[Fit, ...]
    verdict: str

    @property
    def best(self) -> Fit:
        return self.fits[0]


def fit_scaling(points: tuple[Point, ...]) -> Scaling:
    """Fit and weigh all laws. Raises `InputError` with fewer than three different T."""
    require(len({p.T for p in points}) >= 3, "points", "at least three different T", len(points))
    fits = [_fit(law, points) for law in LAWS]
    best = min(fit.aic for fit in fits)
    raw = [math.exp((best - fit.aic) / 2) for fit in fits]
    weighed = [replace(fit, weight=r / sum(raw)) for fit, r in zip(fits, raw, strict=True)]
    ordered = tuple(sorted(weighed, key=lambda fit: fit.aic))
    return Scaling(ordered, verdict(ordered))


def _rising(law: str, T: Float[ndarray, "..."], c: float) -> Float[ndarray, "..."]:
    """What b is multiplied with."""
    log_T = np.log(T)
    if law == "constant":
        return np.zeros_like(T)
    if law == "linear":
        return T
    return log_T if law == "log" or abs(c) < 1e-9 else np.expm1(c * log_T) / c


def _fit(law: str, points: tuple[Point, ...]) -> Fit:
    T = np.array([p.T for p in points], dtype=np.float64)
    exponents = _EXPONENTS if law == "power" else np.array([1.0])
    line = _lines(np.stack([_rising(law, T, float(c)) for c in exponents]), points)
    best = int(np.argmin(line.chi2))
    excess = line.chi2 - line.chi2[best]
    accepted = np.flatnonzero(excess <= _CHI2)
    reach = np.sqrt(_CHI2 - excess[accepted])
    parameters = [
        _parameter(name, value[best], value[accepted], error[accepted] * reach)
        for name, value, error in (("a", line.a, line.error_a), ("b", line.b, line.error_b))
    ]
    if law == "constant":
        parameters = parameters[:1]
    if law == "power":
        parameters.append(_exponent(best, accepted))
    chi2 = float(line.chi2[best])
    return Fit(law, _FORMULAS[law], tuple(parameters), chi2, chi2 + 2 * len(parameters), 0.0)


def _parameter(
    name: str, best: float, values: Float[ndarray, " e"], reach: Float[ndarray, " e"]
) -> Parameter:
    """The union of the intervals at all accepted exponents (one, but for the power law)."""
    return Parameter(
        name, float(best), float((values - reach).min()), float((values + reach).max())
    )


def _exponent(best: int, accepted: Integer[ndarray, " e"]) -> Parameter:
    """The exponent and its interval, open where it runs off the grid."""
    first, last = int(accepted[0]), int(accepted[-1])
    low = None if first == 0 else float(_EXPONENTS[first])
    high = None if last == len(_EXPONENTS) - 1 else float(_EXPONENTS[last])
    return Parameter("c", float(_EXPONENTS[best]), low, high)


class _Lines(NamedTuple):
    """Weighted straight lines a + b x, one per row of x."""

    a: Float[ndarray, " e"]
    b: Float[ndarray, " e"]
    error_a: Float[ndarray, " e"]
    error_b: Float[ndarray, " e"]
    chi2: Float[ndarray, " e"]


def _lines(x: Float[ndarray, "e n"], points: tuple[Point, ...]) -> _Lines:
    """Closed form around the weighted means; a row of zeros gives the constant law."""
    m = np.array([p.m_star for p in points], dtype=np.float64)
    weight = np.array([p.error for p in points]) ** -2
    total = weight.sum()
    x_mean, m_mean = x @ weight / total, m @ weight / total
    centred = x - x_mean[:, None]
    spread = centred**2 @ weight
    safe = np.where(spread > 0, spread, 1.0)
    b = centred @ (weight * (m - m_mean)) / safe
    chi2 = (m - m_mean - b[:, None] * centred) ** 2 @ weight
    error_a = np.sqrt(1 / total + np.where(spread > 0, x_mean**2 / safe, 0.0))
    return _Lines(m_mean - b * x_mean, b, error_a, safe**-0.5, chi2)


def verdict(fits: tuple[Fit, ...]) -> str:
    """The comparison in plain words.

    The power law holds log and linear as special cases, so it can never fall far behind them; it
    is judged by its exponent. The others are not distinguishable while their AIC differ by less
    than 4, and ruled out from 10 on (Burnham and Anderson 2002).
    """
    power = next(fit for fit in fits if fit.law == "power")
    named = [fit for fit in fits if fit.law != "power"]
    best = power if power.aic < named[0].aic - 4 else named[0]
    close = [fit for fit in named if fit is not best and fit.aic - best.aic < 4]
    far = [fit.law for fit in named if fit is not best and fit.aic - best.aic >= 10]
    if close:
        names = " and ".join(f"{fit.law} (weight {fit.weight:.2f})" for fit in (best, *close))
        text = f"The laws {names} are not distinguishable with these data."
    else:
        freely = "not clearly worse than a power law with a free exponent"
        how = freely if power.aic < best.aic else "best"
        text = f"The {best.law} law describes the thresholds {how}: {_written(best)}."
    if far:
        text += f" Ruled out: {', '.join(far)}."
    return text if best is power else f"{text} {_about_exponent(power)}"


def _written(fit: Fit) -> str:
    values = (f"{p.name} = {p.value:.3g} {_interval(p)}" for p in fit.parameters)
    return f"{fit.formula} with {', '.join(values)}"


def _interval(parameter: Parameter) -> str:
    sides = ("open" if v is None else f"{v:.3g}" for v in (parameter.low, parameter.high))
    return f"[{', '.join(sides)}]"


def _about_exponent(power: Fit) -> str:
    """What the free exponent says: does its interval hold 0 (log) and 1 (linear)?"""
    c = power.parameters[2]
    low, high = (-math.inf if c.low is None else c.low), (math.inf if c.high is None else c.high)
    special = ((0.0, "0 (log)"), (1.0, "1 (linear)"))
    holds = [name for value, name in special if low <= value <= high]
    said = f"includes {' and '.join(holds)}" if holds else "excludes 0 (log) and 1 (linear)"
    return f"A power law with a free exponent has c = {c.value:.2g} {_interval(c)}, which {said}."
