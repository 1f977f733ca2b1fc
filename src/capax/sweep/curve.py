"""The success curve: how likely a trial with m examples is to succeed, and where it crosses 0.8.

With x = log m the curve is a logistic that may stop short of 1 (a trial can fail for reasons that
more data does not cure: the lapse rate λ):

    ψ(x) = (1 - λ) expit( z + (x - θ)/σ ),      z = logit( τ / (1 - λ) ),

written so that θ itself is the point where ψ reaches the target τ = 0.8; the threshold is
m* = ceil(exp θ), the smallest whole m with success probability at least τ.

The likelihood is tabulated on a grid of (θ, σ, λ). θ has a flat prior over the range of the search;
σ and λ are nuisance parameters under weak priors and are integrated out. The interval is the
central 95% of what is left; its frequentist coverage is checked on simulated learners.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.special import expit, logit, logsumexp

from capax.errors import require

TARGET = 0.8
LEVEL = 0.95


@dataclass(frozen=True)
class CurveGrid:
    """Grid of θ = log m*, m* between `low` and `high` examples, and of the nuisance (σ, λ)."""

    low: int
    high: int
    target: float = TARGET
    num_theta: int = 121
    num_sigma: int = 9
    num_lapse: int = 4

    def __post_init__(self) -> None:
        require(self.low >= 1, "m_low", "at least 1", self.low)
        require(self.high > self.low, "m_high", f"more than m_low = {self.low}", self.high)
        require(0 < self.target < 1, "target", "a probability in (0, 1)", self.target)

    @classmethod
    def fine(cls, low: int, high: int, target: float = TARGET) -> "CurveGrid":
        """A grid for final numbers, also with thousands of trials; a search makes do with less."""
        return cls(low, high, target, num_theta=401, num_sigma=33, num_lapse=18)

    @cached_property
    def theta(self) -> Float[ndarray, " n"]:
        return np.linspace(math.log(self.low), math.log(self.high), self.num_theta)

    @cached_property
    def nuisance(self) -> tuple[Float[ndarray, " k"], Float[ndarray, " k"], Float[ndarray, " k"]]:
        """σ, λ and the log prior weight of every pair: σ log-normal around 0.15, λ decreasing."""
        sigma = np.geomspace(0.02, 1.2, self.num_sigma)
        lapse = np.linspace(0.0, 0.85 * (1 - self.target), self.num_lapse)
        log_prior_sigma = -0.5 * ((np.log(sigma) - math.log(0.15)) / 1.0) ** 2
        log_prior_lapse = -lapse / 0.05
        pairs = np.meshgrid(sigma, lapse, indexing="ij")
        log_prior = log_prior_sigma[:, None] + log_prior_lapse[None, :]
        return pairs[0].ravel(), pairs[1].ravel(), (log_prior - logsumexp(log_prior)).ravel()


@dataclass(frozen=True)
class Counts:
    """Outcomes so far: `solved[i]` of `total[i]` trials succeeded with `m[i]` examples."""

    m: tuple[int, ...]
    solved: tuple[int, ...]
    total: tuple[int, ...]

    def __post_init__(self) -> None:
        require(len(self.m) == len(self.solved) == len(self.total), "counts", "equal lengths", self)
        for m, solved, total in zip(self.m, self.solved, self.total, strict=True):
            require(m >= 1, "m", "at least 1", m)
            require(0 <= solved <= total, "solved", f"between 0 and total = {total}", solved)

    @classmethod
    def of(cls, outcomes: Sequence[tuple[int, bool]]) -> "Counts":
        """Count (m, solved) pairs, one per trial."""
        values = sorted({m for m, _ in outcomes})
        solved = dict.fromkeys(values, 0)
        total = dict.fromkeys(values, 0)
        for m, success in outcomes:
            total[m] += 1
            solved[m] += int(success)
        return cls(tuple(values), tuple(solved.values()), tuple(total.values()))

    @property
    def trials(self) -> int:
        return sum(self.total)


@dataclass(frozen=True)
class Estimate:
    """m* with its interval; `None` where the data leave that side of the search range open."""

    m_star: int
    low: int | None
    high: int | None
    trials: int
    sigma: float
    lapse: float

    @property
    def log_width(self) -> float:
        """log(high / low); infinite while a side is open."""
        if self.low is None or self.high is None:
            return math.inf
        return math.log(self.high / self.low)


def success_probability(
    m: Float[ndarray, "..."],
    theta: Float[ndarray, "..."] | float,
    sigma: Float[ndarray, "..."] | float,
    lapse: Float[ndarray, "..."] | float,
    target: float = TARGET,
) -> Float[ndarray, "..."]:
    """ψ(log m) of the module's formula; broadcasts."""
    z = logit(target / (1 - np.asarray(lapse)))
    return (1 - lapse) * expit(z + (np.log(m) - theta) / sigma)


@lru_cache(maxsize=8)
def _log_tables(
    grid: CurveGrid, values: tuple[int, ...]
) -> tuple[Float[ndarray, "n k i"], Float[ndarray, "n k i"]]:
    """log ψ and log(1 - ψ) at every (θ, nuisance pair, m)."""
    sigma, lapse, _ = grid.nuisance
    m = np.asarray(values, dtype=np.float64)
    psi = success_probability(
        m[None, None, :],
        grid.theta[:, None, None],
        sigma[None, :, None],
        lapse[None, :, None],
        grid.target,
    )
    psi = np.clip(psi, 1e-12, 1 - 1e-9)
    return np.log(psi), np.log1p(-psi)


@lru_cache(maxsize=4)
def log_posterior(
    grid: CurveGrid, counts: Counts, values: tuple[int, ...] | None = None
) -> Float[ndarray, "n k"]:
    """Normalised log posterior on the grid.

    `values`, a superset of `counts.m`, changes nothing but speed: a search passes all its
    candidates, so that the tables are built once.
    """
    values = counts.m if values is None else values
    _, _, log_prior = grid.nuisance
    log_joint = np.broadcast_to(log_prior, (grid.num_theta, log_prior.size))
    if counts.m:
        log_success, log_failure = _log_tables(grid, values)
        where = {m: i for i, m in enumerate(values)}
        solved = np.zeros(len(values))
        total = np.zeros(len(values))
        for m, k, n in zip(counts.m, counts.solved, counts.total, strict=True):
            solved[where[m]], total[where[m]] = k, n
        log_joint = log_joint + log_success @ solved + log_failure @ (total - solved)
    return log_joint - logsumexp(log_joint)


def estimate(
    grid: CurveGrid,
    counts: Counts,
    *,
    level: float = LEVEL,
    values: tuple[int, ...] | None = None,
) -> Estimate:
    """Posterior median of m* and its central interval of probability `level`."""
    require(counts.trials > 0, "counts", "at least one trial", 0)
    posterior = np.exp(log_posterior(grid, counts, values))
    marginal = posterior.sum(axis=1)
    tail = (1 - level) / 2
    low, middle, high = _quantiles(grid.theta, marginal, (tail, 0.5, 1 - tail))
    sigma, lapse, _ = grid.nuisance
    weight = posterior.sum(axis=0)
    edge = 0.5 * (1 - level)
    return Estimate(
        m_star=_whole(middle),
        low=None if marginal[:2].sum() > edge / 2 else _whole(low),
        high=None if marginal[-2:].sum() > edge / 2 else _whole(high),
        trials=counts.trials,
        sigma=float(np.exp(weight @ np.log(sigma))),
        lapse=float(weight @ lapse),
    )


def _quantiles(
    theta: Float[ndarray, " n"], mass: Float[ndarray, " n"], levels: tuple[float, ...]
) -> tuple[float, ...]:
    """Quantiles of a density on equal cells centred at `theta`, linear inside a cell."""
    step = theta[1] - theta[0]
    edges = np.concatenate([theta - step / 2, theta[-1:] + step / 2])
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    return tuple(float(v) for v in np.interp(levels, cumulative / cumulative[-1], edges))


def _whole(log_m: float) -> int:
    """The smallest whole m with log m >= log_m (rounding noise forgiven)."""
    return max(1, math.ceil(math.exp(log_m) - 1e-9))


def isotonic_rates(counts: Counts) -> Float[ndarray, " i"]:
    """Success rates pooled until they do not decrease with m: the check without a model."""
    blocks: list[list[float]] = []
    for solved, total in zip(counts.solved, counts.total, strict=True):
        blocks.append([float(solved), float(total), 1.0])
        while len(blocks) > 1 and _rate(blocks[-2]) >= _rate(blocks[-1]):
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    return np.concatenate([np.full(int(b[2]), _rate(b)) for b in blocks] or [np.zeros(0)])


def _rate(block: list[float]) -> float:
    return block[0] / block[1] if block[1] else 0.0


def isotonic_threshold(counts: Counts, target: float = TARGET) -> int | None:
    """The smallest tried m whose isotonic success rate reaches `target`; `None` if none does."""
    reached: Bool[ndarray, " i"] = isotonic_rates(counts) >= target
    return counts.m[int(np.argmax(reached))] if reached.any() else None
