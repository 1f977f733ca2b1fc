"""The success curve: the chance that a trial with m examples succeeds, and where it crosses 0.8.

With x = log m the curve is a step F that levels off at the plateau 1 - λ, free in (0, 1]: a trial
can fail for reasons other than the number of examples,

    ψ(x) = (1 - λ) F( z + (x - θ)/σ ),      F(z) = τ / (1 - λ)   if 1 - λ > τ, else 1/2.

F is one of two shapes, symmetric or quick to reach its plateau: the logistic 1/(1 + exp(-u)) and
Weibull's 1 - exp(-exp u). The true one is unknown; both have the same prior weight.

If the plateau lies above the target τ = 0.8, θ itself is the point where ψ reaches τ and the
threshold is m* = ceil(exp θ), the smallest whole m with success probability at least τ. If it lies
below, there is no m*: θ is then the middle of the rise, and m* counts as infinite.

The likelihood is tabulated on a grid of (θ, F, σ, λ). θ has a flat prior, well beyond the range
tried on either side; λ has a flat prior through the point where m* ceases to exist, so that an
interval closes above only if the trials themselves show a plateau above τ; log σ is normal and
wide. Each end of the interval leaves out 2.5 % of the posterior of m* <= ∞.

For the upper end the prior says with probability τ = 0.8 that there is no m*: cautious there, for
then no end is high enough. For a lower end the same is rash: without m* no end is too high. Few
trials could not outweigh it, and two passes in three at the largest m gave "m* > m_high"; where m*
was just below m_high, 8 % of the intervals began above it. So the lower end takes even odds,

    P[m* < low | trials] = 0.025     if P[m* < ∞] = 1/2 before the trials.

Averaged over this prior, an interval begins above m* with probability 0.025, so with probability
0.05 at most where there is an m*, whenever the search stops: a posterior does not depend on the
rule that ended the trials. With 1 to 4 the same sum was 0.125.

A side that leaves the range of the m tried is open: no trial supports a number there. Coverage is
checked on simulated learners.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from capax.errors import require
from capax.sweep.searching.counts import TARGET, Counts

LEVEL = 0.95
_MARGIN = 3.0
"""θ runs this factor beyond the range of m on both sides."""
_SIGMA = (0.02, 1.28)
_FAR = 10.0
"""A σ is ruled out if it lies this many nats below the best."""


class Nuisance(NamedTuple):
    """Every (F, σ, λ) of a grid with its log prior weight; `reaches`: 1 - λ exceeds the target."""

    weibull: Bool[ndarray, " k"]
    sigma: Float[ndarray, " k"]
    lapse: Float[ndarray, " k"]
    log_prior: Float[ndarray, " k"]
    reaches: Bool[ndarray, " k"]


@dataclass(frozen=True)
class CurveGrid:
    """Grid of θ around the range `low` to `high` of m, and of the nuisance (F, σ, λ)."""

    low: int
    high: int
    target: float = TARGET
    num_theta: int = 121
    num_sigma: int = 9
    num_above: int = 8
    num_below: int = 5
    sigma: tuple[float, float] = _SIGMA

    def __post_init__(self) -> None:
        require(self.low >= 1, "m_low", "at least 1", self.low)
        require(self.high >= self.low, "m_high", f"at least m_low = {self.low}", self.high)
        require(0 < self.target < 1, "target", "a probability in (0, 1)", self.target)

    @classmethod
    def fitted(cls, counts: Counts, target: float = TARGET) -> "CurveGrid":
        """A grid for final numbers, also with thousands of trials; a search uses a coarser one.

        σ is tabulated where the trials do not rule it out, between powers of two: many trials leave
        a short range, which a coarse grid would miss.
        """
        coarse = cls(counts.m[0], counts.m[-1], target, num_theta=121, num_sigma=13)
        joint = log_likelihood(coarse, counts)
        sigma = coarse.nuisance.sigma[joint.max(axis=0) >= joint.max() - _FAR]
        low = _SIGMA[0] * 2.0 ** math.floor(math.log2(sigma.min() / _SIGMA[0] / 1.5))
        high = _SIGMA[0] * 2.0 ** math.ceil(math.log2(sigma.max() / _SIGMA[0] * 1.5))
        return cls(
            counts.m[0],
            counts.m[-1],
            target,
            num_theta=241,
            num_sigma=12,
            num_above=12,
            num_below=7,
            sigma=(max(low, _SIGMA[0]), min(high, _SIGMA[1])),
        )

    @cached_property
    def theta(self) -> Float[ndarray, " n"]:
        low, high = math.log(self.low / _MARGIN), math.log(self.high * _MARGIN)
        return np.linspace(low, high, self.num_theta)

    @cached_property
    def axes(self) -> tuple[Float[ndarray, " s"], Float[ndarray, " l"]]:
        """The values of σ and of λ."""
        above, below = self._cells
        lapse = np.concatenate([_middles(above), _middles(below)])
        return np.geomspace(*self.sigma, self.num_sigma), lapse

    @property
    def _cells(self) -> tuple[Float[ndarray, " a"], Float[ndarray, " b"]]:
        """The ends of the cells of λ: small cells near 0 and 1 - τ."""
        edge = 1 - self.target
        above = edge / 2 * (1 - np.cos(np.pi * np.arange(self.num_above + 1) / self.num_above))
        below = edge + (1 - edge) * (np.arange(self.num_below + 1) / self.num_below) ** 2
        return above, below

    @cached_property
    def nuisance(self) -> Nuisance:
        """log σ wide around log 0.2; λ uniform on (0, 1)."""
        sigma, lapse = self.axes
        prior_sigma = np.exp(-0.5 * (np.log(sigma / 0.2) / 1.2) ** 2)
        width = np.concatenate([np.diff(edges) for edges in self._cells])
        weibull, sigmas, lapses = np.meshgrid([False, True], sigma, lapse, indexing="ij")
        prior = np.broadcast_to(prior_sigma[:, None] * width[None, :], weibull.shape).ravel()
        return Nuisance(
            weibull.ravel(),
            sigmas.ravel(),
            lapses.ravel(),
            np.log(prior / prior.sum()),
            lapses.ravel() < 1 - self.target,
        )


def _middles(edges: Float[ndarray, " n"]) -> Float[ndarray, " n-1"]:
    return (edges[1:] + edges[:-1]) / 2


@dataclass(frozen=True)
class Estimate:
    """m* with its interval; `None` on an open side.

    `m_star` is `None` unless m* more likely than not lies among the m tried. `plateau` is the
    estimated success rate with plenty of examples, `short` the probability that it misses the
    target, `smallest` and `largest` are the m tried.
    """

    m_star: int | None
    low: int | None
    high: int | None
    trials: int
    sigma: float
    plateau: float
    short: float
    smallest: int
    largest: int
    solved: int

    @property
    def log_width(self) -> float:
        """log(high / low); infinite while a side is open."""
        if self.low is None or self.high is None:
            return math.inf
        return math.log(self.high / self.low)

    @property
    def unreached(self) -> bool:
        """No m tried reaches the target, at the level of the interval."""
        return self.high is None and self.low is not None and self.low > self.largest

    @property
    def levelled(self) -> bool:
        """Unreached, and the curve has more likely levelled off than not begun to rise."""
        return self.unreached and self.solved > 0 and self.short >= 0.5


def success_probability(
    m: Float[ndarray, "..."],
    theta: Float[ndarray, "..."] | float,
    sigma: Float[ndarray, "..."] | float,
    lapse: Float[ndarray, "..."] | float,
    target: float = TARGET,
    *,
    weibull: bool = False,
) -> Float[ndarray, "..."]:
    """ψ(log m) of the module's formula; broadcasts.

    F(z + u) = 1 / (1 + e^{-z} e^{-u}) and 1 - exp(-e^z e^u): where λ has an axis of its own, the
    powers e^u are taken without it. Beyond |u| = 600 both are flat to the last bit.
    """
    plateau = 1 - np.asarray(lapse, dtype=np.float64)
    share = np.where(plateau > target, target / np.maximum(plateau, 1e-300), 0.5)
    along = np.clip((np.log(m) - theta) / sigma, -600.0, 600.0)
    if weibull:
        return plateau * -np.expm1(np.log1p(-share) * np.exp(along))
    return plateau / (1 + (1 / share - 1) * np.exp(-along))


@lru_cache(maxsize=96)
def _log_table(grid: CurveGrid, m: int, solved: bool) -> Float[ndarray, "n k"]:
    """log ψ(m), or log(1 - ψ(m)), at every (θ, nuisance); kept for the m of one search."""
    psi = _table(grid, m)
    return np.log(psi if solved else 1 - psi)  # 1 - ψ >= 1e-9 is accurate; log1p takes longer


@lru_cache(maxsize=2)
def _table(grid: CurveGrid, m: int) -> Float[ndarray, "n k"]:
    """ψ(m) at every (θ, nuisance)."""
    sigma, lapse = grid.axes
    theta, sigma = grid.theta[:, None, None], sigma[:, None]
    psi = np.empty((grid.num_theta, 2, sigma.size, lapse.size))
    for shape in (False, True):
        psi[:, int(shape)] = success_probability(
            np.asarray(m, dtype=np.float64), theta, sigma, lapse, grid.target, weibull=shape
        )
    return np.clip(psi, 1e-12, 1 - 1e-9, out=psi).reshape(grid.num_theta, -1)


@lru_cache(maxsize=32)
def log_likelihood(grid: CurveGrid, counts: Counts) -> Float[ndarray, "n k"]:
    """log P[outcomes | θ, F, σ, λ] on the grid."""
    total = np.zeros((grid.num_theta, grid.nuisance.sigma.size))
    for m, solved, tried in zip(counts.m, counts.solved, counts.total, strict=True):
        if solved:
            total += solved * _log_table(grid, m, True)
        if solved < tried:
            total += (tried - solved) * _log_table(grid, m, False)
    return total


@lru_cache(maxsize=4)
def log_joint(grid: CurveGrid, counts: Counts) -> Float[ndarray, "n k"]:
    """log P[outcomes, F, σ, λ | θ] on the grid."""
    return log_likelihood(grid, counts) + grid.nuisance.log_prior


@lru_cache(maxsize=4)
def posterior(grid: CurveGrid, counts: Counts) -> Float[ndarray, "n k"]:
    """P[θ, F, σ, λ | outcomes] on the grid; θ has a flat prior."""
    joint = log_joint(grid, counts)
    weight = joint - joint.max()
    np.exp(weight, out=weight)
    weight /= weight.sum()
    return weight


def mean_success(grid: CurveGrid, counts: Counts, m: int) -> float:
    """The probability that a trial at m succeeds, over the posterior."""
    return float((posterior(grid, counts) * _table(grid, m)).sum())


def estimate(grid: CurveGrid, counts: Counts, *, level: float = LEVEL) -> Estimate:
    """Posterior median of m* and its interval of probability `level`; half of the rest is below."""
    require(counts.trials > 0, "counts", "at least one trial", 0)
    _, sigma, lapse, _, reaches = grid.nuisance
    weight = posterior(grid, counts)
    marginal = weight[:, reaches].sum(axis=1)
    tail = (1 - level) / 2
    (low,) = _quantiles(grid.theta, _at_even_odds(grid, marginal), (tail,))
    middle, high = _quantiles(grid.theta, marginal, (0.5, 1 - tail))
    smallest, largest = counts.m[0], counts.m[-1]
    inside = smallest - 1e-9 <= math.exp(middle) <= largest + 1e-9
    weight = weight.sum(axis=0)
    return Estimate(
        m_star=_whole(middle) if inside else None,
        low=None if math.exp(low) < smallest else min(_whole(low), largest + 1),
        high=None if math.exp(high) > largest else max(_whole(high), smallest),
        trials=counts.trials,
        sigma=float(np.exp(weight @ np.log(sigma))),
        plateau=float(weight @ (1 - lapse)),
        short=float(1 - marginal.sum()),
        smallest=smallest,
        largest=largest,
        solved=sum(counts.solved),
    )


def _at_even_odds(grid: CurveGrid, marginal: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """The posterior of θ where m* exists, if it did with probability 1/2 before the trials.

    marginal: the same with the prior of the grid, by which m* exists with probability `exists`.
    """
    exists = float(np.exp(grid.nuisance.log_prior[grid.nuisance.reaches]).sum())
    there, never = marginal / exists, (1 - float(marginal.sum())) / (1 - exists)
    return there / (float(there.sum()) + never)


def _quantiles(
    theta: Float[ndarray, " n"], mass: Float[ndarray, " n"], levels: tuple[float, ...]
) -> tuple[float, ...]:
    """Quantiles of a density on equal cells centred at `theta`; the missing mass lies at 700.

    (exp 700 is nearly the largest float: practically infinite, and still a number.)
    """
    step = theta[1] - theta[0]
    edges = np.concatenate([theta - step / 2, theta[-1:] + step / 2])
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    return tuple(
        float(np.interp(q, cumulative, edges)) if q <= cumulative[-1] else 700.0 for q in levels
    )


def _whole(log_m: float) -> int:
    """The smallest whole m with log m >= log_m, up to rounding."""
    return max(1, math.ceil(math.exp(log_m) - 1e-9))
