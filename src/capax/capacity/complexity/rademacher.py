"""Empirical Rademacher complexity: exact for small samples, else simulated with an interval.

R(F; z) = E_sigma sup_f (1/m) sum_i sigma_i f(z_i),   sigma_i = +-1 independent and fair.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.capacity.arguments import check_count, check_finite, check_probability
from capax.capacity.complexity.chaining import massart, rademacher_from_log_cover
from capax.capacity.covers.covering_classes import function_space
from capax.capacity.covers.covering_curve import covering_curve
from capax.capacity.covers.metrics import as_floats
from capax.errors import InfeasibleError, require

MAX_EXACT_POINTS = 20
CHUNK = 4096


@dataclass(frozen=True)
class Rademacher:
    """R(F; z), or an estimate whose interval [lower, upper] holds with probability 1 - delta."""

    value: float
    lower: float
    upper: float
    delta: float = 0.0

    @property
    def exact(self) -> bool:
        """Was every sign vector tried?"""
        return self.delta == 0.0


def rademacher_exact(values: object) -> Rademacher:
    """R by trying all 2^m signs. values: [functions, m]; `InfeasibleError` for m > 20."""
    table = _check(values)
    m = table.shape[1]
    if m > MAX_EXACT_POINTS:
        raise InfeasibleError(
            f"rademacher_exact: at most {MAX_EXACT_POINTS} points (2^m sign vectors), got {m}"
        )
    total = 0.0
    for start in range(0, 2**m, CHUNK):
        codes = np.arange(start, min(start + CHUNK, 2**m))
        signs = 1.0 - 2.0 * ((codes[:, None] >> np.arange(m)) & 1)
        total += float((signs @ table.T).max(axis=1).sum())
    value = total / m / 2**m
    return Rademacher(value, value, value)


def rademacher_monte_carlo(
    values: object, draws: int = 10_000, *, delta: float = 0.01, key: int
) -> Rademacher:
    """R from random signs, with a rigorous interval (no normal approximation).

    The class is centred first, which changes no expectation. One sign moves the mean of the draws
    by at most 2 h_i/(m draws), h_i = half the range of f(z_i) over F, so by McDiarmid
    |estimate - R| <= sqrt(2 ln(2/delta) sum_i h_i^2 / draws) / m with probability 1 - delta.
    """
    table = _check(values)
    check_count("draws", draws)
    check_probability("delta", delta)
    m, rng = table.shape[1], np.random.default_rng(key)
    high, low = table.max(axis=0), table.min(axis=0)
    centred, half = table - (high + low) / 2, (high - low) / 2
    total = 0.0
    for start in range(0, draws, CHUNK):
        rows = min(CHUNK, draws - start)
        signs = rng.integers(0, 2, size=(rows, m)) * 2.0 - 1.0
        total += float((signs @ centred.T).max(axis=1).sum())
    value = total / m / draws
    error = math.sqrt(2 * math.log(2 / delta) * float((half**2).sum()) / draws) / m
    return Rademacher(value, max(0.0, value - error), value + error, delta)


def rademacher_massart(values: object) -> float:
    """Massart for a finite class: max_f ||f - c||_{2,S} sqrt(2 ln |F| / m), c the midrange."""
    table = _check(values)
    return massart(_radius(table), math.log(len(table)), table.shape[1])


def rademacher_from_curve(values: object, *, time_limit: float | int = 60.0) -> float:
    """The discrete chain on the class's own covering curve (internal, N_inf >= N_2)."""
    table = _check(values)
    curve = covering_curve(function_space(table), time_limit=time_limit)
    radius = _radius(table)
    if radius == 0:
        return 0.0
    return rademacher_from_log_cover(
        lambda eps: math.log(curve(eps)[1]), radius, table.shape[1], external=False
    )


def _radius(table: Float[np.ndarray, "functions m"]) -> float:
    middle = (table.max(axis=0) + table.min(axis=0)) / 2
    return float(np.sqrt(((table - middle) ** 2).mean(axis=1)).max())


def _check(values: object) -> Float[np.ndarray, "functions m"]:
    table = as_floats("values", values)
    require(table.ndim == 2, "values", "a table [functions, m]", f"shape {table.shape}")
    check_finite("values", table)
    return table
