"""What the trials at each T say about the place θ_T where success reaches the target.

Every T has its own curve (θ_T, F_T, σ_T, λ_T), but the curves of one learner resemble each other:

    log σ_T ~ N(s, 0.35²),     λ_T ~ exponential of mean l,     F_T = Weibull with probability w,

each but for one T in ten, which follows the wide prior of a lone curve instead (a T may be unlike
the rest, and level off at 60% where the others reach 1). The common (s, l, w) are those under which
all trials together are most likely, every θ_T integrated over its flat prior. Twenty trials alone
do not say how steep their curve is; a hundred at five T do.

ℓ_T(θ) is then the log likelihood of the trials at T given θ_T = θ, the rest integrated out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import logsumexp

from capax.errors import require
from capax.sweep.counts import TARGET, Counts
from capax.sweep.curve import CurveGrid, Nuisance, log_likelihood

_WIDTH = 0.35
_UNLIKE = 0.1
_STEEPNESS = np.geomspace(0.04, 0.8, 11)
_LAPSES = (0.005, 0.02, 0.05, 0.12, 0.3)
_WEIBULL = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Position:
    """ℓ_T on a grid of θ for one T, and the best log likelihood when nothing is assumed of θ."""

    T: int
    theta: Float[ndarray, " n"]
    log_likelihood: Float[ndarray, " n"]
    free: float

    def at(self, log_m: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """ℓ_T at θ = log m, linear between the points of the grid, constant beyond."""
        step = self.theta[1] - self.theta[0]
        place = np.clip((log_m - self.theta[0]) / step, 0.0, self.theta.size - 1.000001)
        left = place.astype(np.int64)
        share = place - left
        return (1 - share) * self.log_likelihood[left] + share * self.log_likelihood[left + 1]


def positions(curves: Sequence[tuple[int, Counts]], target: float = TARGET) -> tuple[Position, ...]:
    """ℓ_T for every (T, outcomes), the likeness of the curves taken from all of them."""
    tables = []
    for T, counts in curves:
        require(T >= 1, "T", "at least 1", T)
        require(counts.trials > 0, "counts", "at least one trial", 0)
        grid = CurveGrid.fitted(counts, target)
        tables.append((T, grid, log_likelihood(grid, counts)))
    alike = _most_likely(tables)
    return tuple(_position(T, grid, joint, alike) for T, grid, joint in tables)


Alike = tuple[float, float, float]
"""(s as σ, l, w): what the curves have in common."""


def _most_likely(tables: Sequence[tuple[int, CurveGrid, Float[ndarray, "n k"]]]) -> Alike:
    """The (s, l, w) under which all trials together are most likely.

    The prior is a product of three factors, so that all (s, l, w) are one matrix product. Every
    factor is bounded from below (some T are unlike the rest): no sum can vanish.
    """
    choices = _STEEPNESS, np.array(_LAPSES), np.array(_WEIBULL)
    together = np.zeros((choices[0].size, choices[1].size * choices[2].size))
    for _, grid, joint in tables:
        evidence = logsumexp(joint, axis=0) + np.log(grid.theta[1] - grid.theta[0])
        largest = evidence.max()
        sigma, lapse, shape = _prior(grid, *choices)
        others = (lapse[:, None] * shape).reshape(-1, evidence.size)
        together += largest + np.log((sigma * np.exp(evidence - largest)) @ others.T)
    return list(product(_STEEPNESS.tolist(), _LAPSES, _WEIBULL))[int(together.argmax())]


def _prior(
    grid: CurveGrid, s: Float[ndarray, " a"], l: Float[ndarray, " b"], w: Float[ndarray, " c"]
) -> tuple[Float[ndarray, "a k"], Float[ndarray, "b k"], Float[ndarray, "c k"]]:
    """Factors of the prior weight of every (F, σ, λ) of a grid, for some values of each of the
    three that the curves have in common: of σ by s, of λ by l, of F by w."""
    s, l, w = s[:, None], l[:, None], w[:, None]
    nuisance = grid.nuisance
    near = np.exp(-0.5 * (np.log(nuisance.sigma / s) / _WIDTH) ** 2) / _WIDTH
    wide = np.exp(-0.5 * (np.log(nuisance.sigma / 0.2) / 1.2) ** 2) / 1.2
    step = np.log(grid.sigma[1] / grid.sigma[0]) / (grid.num_sigma - 1) / np.sqrt(2 * np.pi)
    sigma = ((1 - _UNLIKE) * near + _UNLIKE * wide) * step
    few = np.exp(-nuisance.lapse / l) / l / (1 - np.exp(-1 / l))
    lapse = ((1 - _UNLIKE) * few + _UNLIKE) * _cells(nuisance)
    return sigma, lapse, np.where(nuisance.weibull, w, 1 - w)


def _log_prior(grid: CurveGrid, alike: Alike) -> Float[ndarray, " k"]:
    """Log prior weight of every (F, σ, λ) of a grid, given what the curves have in common."""
    sigma, lapse, shape = _prior(grid, *(np.array([one]) for one in alike))
    return (np.log(sigma) + np.log(lapse) + np.log(shape))[0]


def _cells(nuisance: Nuisance) -> Float[ndarray, " k"]:
    """Width of the cell of every λ: the prior of a lone curve is uniform in λ."""
    values, which = np.unique(nuisance.lapse, return_inverse=True)
    mass = np.bincount(which, weights=np.exp(nuisance.log_prior), minlength=values.size)
    return mass[which]


def _position(T: int, grid: CurveGrid, joint: Float[ndarray, "n k"], alike: Alike) -> Position:
    log_prior, reaches = _log_prior(grid, alike), grid.nuisance.reaches
    parts = []
    for chosen in (reaches, ~reaches):
        total = logsumexp(_log_prior_of_lapse(grid, alike, chosen))
        parts.append(logsumexp(joint[:, chosen] + log_prior[chosen], axis=1) - total)
    return Position(T, grid.theta, parts[0], float(max(parts[0].max(), parts[1].max())))


def _log_prior_of_lapse(grid: CurveGrid, alike: Alike, chosen: ndarray) -> Float[ndarray, " l"]:
    """Log prior weight of the λ on one side of the target, over all σ, also those left out."""
    _, l, _ = alike
    nuisance = grid.nuisance
    values, first = np.unique(nuisance.lapse[chosen], return_index=True)
    few = np.exp(-values / l) / l / (1 - np.exp(-1 / l))
    return np.log(((1 - _UNLIKE) * few + _UNLIKE) * _cells(nuisance)[chosen][first])
