"""Four laws of m*(T), each fitted by one likelihood over all trials.

    constant   m* = a
    log        m* = a + b ln T
    linear     m* = a + b T
    power      m* = a + b (T^c - 1)/c        (c -> 0 is the log law, c = 1 the linear one)

Every T has its own success curve; a law only gives the points where they cross the target. With
ℓ_T(θ) the log likelihood of the trials at T when the crossing lies at log m = θ (steepness, shape
and plateau of the curve integrated out, `capax.analysis.positions`),

    ℓ(law) = max over its parameters of  sum_T ℓ_T( log m*(T) ).

No threshold is estimated in between, so no T is lost: a T where every trial failed shows that m*
lies higher, and how certainly. The laws are compared with the fit in which every θ_T is free (or
infinite, if the plateau is below the target). Goodness of fit of a law with k parameters at n T:

    D = 2 (ℓ(free) - ℓ(law)),  compared with χ² of n - k degrees of freedom;

a law inside the power law is also compared with that one, by χ² of 3 - k degrees. The steepness
that the curves share is estimated from the same trials and searches stop when an interval is
narrow, so deviances come out a little larger than χ² says: all are divided by `INFLATION`, a factor
found by simulation (`benchmarks/verdicts.py exponents`), under which intervals cover and laws are
ruled out at their stated levels, with plateaus that are flat and with plateaus that fall with T.

A law is searched by its values A and B at the smallest and the largest T, in between
A + (B - A) w with w the rising part scaled to [0, 1]: a grid over (log A, log B) that zooms in on
points that the likelihood does not rule out. If every trial failed, m* may lie any distance above
all m tried: ℓ_T is constant there, but A and B are not, so the grid goes on until the T in between
lie above all m tried as well (B up to the largest θ over the smallest w). 95% intervals and bands
are read off the points with 2 (ℓ(law) - ℓ) <= 3.84 `INFLATION`; the ends of the exponent's interval
lie between two exponents, where the best deviance of each crosses that value.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import chdtrc, chdtri

from capax.analysis.positions import Position

LAWS = ("constant", "log", "linear", "power")
FORMULAS = {
    "constant": "m* = a",
    "log": "m* = a + b ln T",
    "linear": "m* = a + b T",
    "power": "m* = a + b (T^c - 1)/c",
}
_EXPONENTS = (-1.0, 2.0)
INFLATION = 1.7
_CRITICAL = INFLATION * float(chdtri(1, 0.05))
_KEPT = 12.0  # a zoom keeps points this far in 2ℓ below the best
_CELLS, _CELLS_BEYOND = 24, 8
_ZOOMS = 4
_FINE = 37  # exponents of the last look at the power law


@dataclass(frozen=True)
class Parameter:
    """A fitted parameter and its 95% interval; `None` on an open side."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Fit:
    """One law fitted to all trials. `p_fit`: goodness of fit, `p_power`: against the power law.

    Both are `None` if no degree of freedom is left.
    """

    law: str
    formula: str
    parameters: tuple[Parameter, ...]
    log_likelihood: float
    deviance: float
    p_fit: float | None
    p_power: float | None = None
    weight: float = 0.0
    accepted: "Accepted | None" = field(default=None, repr=False, compare=False)

    @property
    def aic(self) -> float:
        """2k - 2ℓ / `INFLATION`: deviances count in weights as they do in tests."""
        return 2 * len(self.parameters) - 2 * self.log_likelihood / INFLATION

    def predict(self, T: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """m* of the fitted law at T."""
        values = {p.name: p.value for p in self.parameters}
        return values["a"] + values.get("b", 0.0) * rising(self.law, T, values.get("c", 1.0))

    def band(
        self, T: Float[ndarray, " n"]
    ) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]] | None:
        """Smallest and largest m*(T) among the parameters that the trials do not rule out (95%)."""
        if self.accepted is None:
            return None
        a, b, c = (column[:, None] for column in self.accepted)
        curves = a + b * rising(self.law, T[None, :], c)
        return curves.min(axis=0), curves.max(axis=0)


Accepted = tuple[Float[ndarray, " k"], Float[ndarray, " k"], Float[ndarray, " k"]]
"""(a, b, c) of the points of a search that the 95% interval keeps."""


def rising(
    law: str, T: Float[ndarray, "..."] | float, c: Float[ndarray, "..."] | float
) -> Float[ndarray, "..."]:
    """The factor of b in a law; broadcasts."""
    T, c = np.broadcast_arrays(np.asarray(T, dtype=np.float64), np.asarray(c, dtype=np.float64))
    if law == "constant":
        return np.zeros_like(T)
    if law == "linear":
        return T.copy()
    flat = (np.abs(c) < 1e-9) | (law == "log")
    safe = np.where(flat, 1.0, c)
    return np.where(flat, np.log(T), np.expm1(safe * np.log(T)) / safe)


def fit_law(law: str, positions: tuple[Position, ...]) -> Fit:
    """The best parameters of one law, their intervals, and its goodness of fit."""
    found = _search_exponents(positions) if law == "power" else _search(law, positions, np.ones(1))
    best = int(np.argmax(found.log_likelihood))
    keep = 2 * (found.log_likelihood[best] - found.log_likelihood) <= _CRITICAL
    names = {"constant": "a", "power": "abc"}.get(law, "ab")
    columns = {"a": found.a, "b": found.b, "c": found.c}
    at_edge = bool(found.edge[keep].any())
    parameters = tuple(
        _exponent(found, best)
        if name == "c"
        else _parameter(name, columns[name][best], columns[name][keep], open_ends=at_edge)
        for name in names
    )
    top = float(found.log_likelihood[best])
    deviance = max(0.0, 2 * (sum(p.free for p in positions) - top))
    freedom = len({p.T for p in positions}) - len(names)
    return Fit(
        law=law,
        formula=FORMULAS[law],
        parameters=parameters,
        log_likelihood=top,
        deviance=deviance,
        p_fit=p_value(deviance, freedom) if freedom > 0 else None,
        accepted=(found.a[keep], found.b[keep], found.c[keep]),
    )


def p_value(deviance: float, freedom: int) -> float:
    """Chance of so large a deviance under the law, by χ² and the factor found by simulation."""
    return float(chdtrc(freedom, deviance / INFLATION))


def _parameter(
    name: str, value: float, kept: Float[ndarray, " k"], *, open_ends: bool
) -> Parameter:
    ends = (None, None) if open_ends else (float(kept.min()), float(kept.max()))
    return Parameter(name, float(value), *ends)


def _exponent(found: "_FittedGrid", best: int) -> Parameter:
    """The exponent with its interval, from the best point of every exponent."""
    exponents = np.unique(found.c)
    tops = np.array([found.log_likelihood[found.c == c].max() for c in exponents])
    deviance = 2 * (found.log_likelihood[best] - tops)
    inside = np.flatnonzero(deviance <= _CRITICAL)
    low = _crossing(exponents, deviance, int(inside[0]), -1)
    high = _crossing(exponents, deviance, int(inside[-1]), 1)
    at = (low <= _EXPONENTS[0] + 1e-9, high >= _EXPONENTS[1] - 1e-9)
    return Parameter("c", float(found.c[best]), None if at[0] else low, None if at[1] else high)


def _crossing(
    values: Float[ndarray, " e"], deviance: Float[ndarray, " e"], inside: int, step: int
) -> float:
    """Where the deviance reaches the critical value, between a value inside and the next one."""
    outside = inside + step
    if not 0 <= outside < len(values):
        return float(values[inside])
    share = (_CRITICAL - deviance[inside]) / (deviance[outside] - deviance[inside])
    return float(values[inside] + share * (values[outside] - values[inside]))


@dataclass(frozen=True)
class _FittedGrid:
    """All points of the last zoom: parameters, likelihood, and whether they lie at the edge."""

    a: Float[ndarray, " k"]
    b: Float[ndarray, " k"]
    c: Float[ndarray, " k"]
    log_likelihood: Float[ndarray, " k"]
    edge: ndarray


def _search_exponents(positions: tuple[Position, ...]) -> _FittedGrid:
    """The power law: first all exponents from -1 to 2, then a fine grid of the remaining ones.

    0 and 1 are always included, so that log and linear growth are tested exactly.
    """
    coarse = np.linspace(*_EXPONENTS, 25)
    found = _search("power", positions, coarse)
    near = 2 * (found.log_likelihood.max() - found.log_likelihood) <= _KEPT
    low, high = _around(coarse, np.isin(coarse, found.c[near]))
    named = [c for c in (0.0, 1.0) if low <= c <= high]
    return _search("power", positions, np.union1d(np.linspace(low, high, _FINE), named))


def _search(
    law: str, positions: tuple[Position, ...], exponents: Float[ndarray, " e"]
) -> _FittedGrid:
    """Zoom in on the (log A, log B) that 2ℓ leaves within 12 of the best of their exponent."""
    T = np.array([p.T for p in positions], dtype=np.float64)
    low = min(float(p.theta[0]) for p in positions)
    high = max(float(p.theta[-1]) for p in positions)
    flat = law == "constant"
    first = rising(law, T.min(), exponents)
    width = np.ones_like(first) if flat else rising(law, T.max(), exponents) - first
    shares = [(rising(law, t, exponents) - first) / width for t in T]
    log_A = _values(low, high, 0.0 if flat else _beyond(1 - np.array(shares)))
    log_B = log_A[:1] if flat else _values(low, high, _beyond(np.array(shares)))
    top_A, top_B = log_A[-1], log_B[-1]
    log_A, log_B = (np.tile(values, (len(exponents), 1)) for values in (log_A, log_B))
    total = _on_grid(positions, shares, log_A, log_B)
    for _ in range(_ZOOMS - 1):
        near = 2 * (total.max(axis=(1, 2), keepdims=True) - total) <= _KEPT
        log_A = _zoomed(log_A, near.any(axis=2))
        if not flat:
            log_B = _zoomed(log_B, near.any(axis=1))
        total = _on_grid(positions, shares, log_A, log_B)
    A, B = np.exp(log_A)[:, :, None], np.exp(log_B)[:, None, :]
    rise = (0.0 if flat else B - A) / width[:, None, None]
    at_A = np.isclose(log_A, low) | np.isclose(log_A, top_A)
    at_B = np.isclose(log_B, low) | np.isclose(log_B, top_B)
    edge = at_A[:, :, None] | (at_B[:, None, :] & (not flat))
    parts = (A - rise * first[:, None, None], rise, exponents[:, None, None], total, edge)
    return _FittedGrid(*(np.broadcast_to(part, total.shape).ravel() for part in parts))


def _zoomed(values: Float[ndarray, "e n"], near: ndarray) -> Float[ndarray, "e k"]:
    """For every exponent a finer grid over the values marked `near`, one cell wider."""
    ends = [_around(row, marked) for row, marked in zip(values, near, strict=True)]
    return np.array([np.linspace(low, high, _CELLS + 1) for low, high in ends])


def _on_grid(
    positions: tuple[Position, ...],
    shares: list[Float[ndarray, " e"]],
    log_A: Float[ndarray, "e i"],
    log_B: Float[ndarray, "e j"],
) -> Float[ndarray, "e i j"]:
    """sum_T ℓ_T at m* = A + (B - A) share, for every exponent, A and B."""
    A, B = np.exp(log_A)[:, :, None], np.exp(log_B)[:, None, :]
    values = [
        p.at(np.log(A + (B - A) * share[:, None, None]))
        for p, share in zip(positions, shares, strict=True)
    ]
    return np.sum(values, axis=0)


def _beyond(shares: Float[ndarray, "n e"]) -> float:
    """The largest useful distance of log A or log B above all θ."""
    return float(-np.log(np.min(shares[shares > 1e-12], initial=1.0)))


def _values(low: float, high: float, beyond: float) -> Float[ndarray, " n"]:
    """Possible values at the ends of a law: the range of all θ, and a coarse grid beyond."""
    within = np.linspace(low, high, _CELLS + 1)
    if beyond <= 0:
        return within
    return np.concatenate([within, np.linspace(high, high + beyond, _CELLS_BEYOND + 1)[1:]])


def _around(values: Float[ndarray, " n"], near: ndarray) -> tuple[float, float]:
    """The range of the values marked `near`, one cell wider on both sides."""
    marked = np.flatnonzero(near)
    return float(values[max(marked[0] - 1, 0)]), float(values[min(marked[-1] + 1, len(values) - 1)])
