"""The likelihood of the position θ_T at which success reaches the target, from the trials at T.

Every T has its own curve (θ_T, F_T, σ_T, λ_T). The curves of one learner are about equally steep,

    log σ_T ~ N(s, 0.35²)

except for one T in ten, which follows the wide prior of a single curve instead. The common s is the
one under which all trials together are most likely. Twenty trials do not determine the steepness of
their curve; a hundred at five T do.

The plateaus 1 - λ_T are free and may fall with T. A plateau just above the target moves the
threshold far to the right of the rise, and a mean over all plateaus would hide that: with plateaus
that fall from 1 to 0.81 it biases every law (simulated). So ℓ_T(θ), the log likelihood of
the trials at T given θ_T = θ, is integrated over σ and maximised over the plateau and the shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import logsumexp

from capax.errors import require
from capax.sweep.searching.counts import TARGET, Counts
from capax.sweep.searching.curve import CurveGrid, log_likelihood

_WIDTH = 0.35
_UNLIKE = 0.1
_STEEPNESS = np.geomspace(0.04, 0.8, 11)


@dataclass(frozen=True)
class Position:
    """ℓ_T on a grid of θ for one T, and the best log likelihood with a free θ."""

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
    """ℓ_T for every (T, outcomes), the steepness of the curves taken from all of them."""
    tables = []
    for T, counts in curves:
        require(T >= 1, "T", "at least 1", T)
        require(counts.trials > 0, "counts", "at least one trial", 0)
        grid = CurveGrid.fitted(counts, target)
        tables.append((T, grid, log_likelihood(grid, counts)))
    common = _most_likely(tables)
    return tuple(_position(T, grid, joint, common) for T, grid, joint in tables)


def _most_likely(tables: Sequence[tuple[int, CurveGrid, Float[ndarray, "n k"]]]) -> float:
    """The s under which all trials together are most likely, the rest integrated out.

    The prior is bounded from below (some T are unlike the rest): no sum can vanish.
    """
    together = np.zeros(_STEEPNESS.size)
    for _, grid, joint in tables:
        of_lapse = grid.nuisance.log_prior - np.log(_prior_of_lone_curve(grid.nuisance.sigma))
        evidence = logsumexp(joint, axis=0) + of_lapse
        largest = evidence.max()
        prior = np.array([_prior_of_steepness(grid.nuisance.sigma, s) for s in _STEEPNESS])
        together += largest + np.log(prior @ np.exp(evidence - largest))
    return float(_STEEPNESS[together.argmax()])


def _prior_of_lone_curve(sigma: Float[ndarray, " k"]) -> Float[ndarray, " k"]:
    """Density of log σ for a single curve, wide around log 0.2 (`capax.sweep.searching.curve`)."""
    return np.exp(-0.5 * (np.log(sigma / 0.2) / 1.2) ** 2) / 1.2


def _prior_of_steepness(sigma: Float[ndarray, " k"], s: float) -> Float[ndarray, " k"]:
    """Density of log σ (up to a factor) for a curve among others of steepness about s."""
    near = np.exp(-0.5 * (np.log(sigma / s) / _WIDTH) ** 2) / _WIDTH
    return (1 - _UNLIKE) * near + _UNLIKE * _prior_of_lone_curve(sigma)


def _position(T: int, grid: CurveGrid, joint: Float[ndarray, "n k"], s: float) -> Position:
    sigma, lapse = grid.axes
    log_prior = np.log(_prior_of_steepness(sigma, s) * np.log(sigma[1] / sigma[0]))
    by_part = joint.reshape(len(joint), 2, sigma.size, lapse.size) + log_prior[:, None]
    over_sigma = logsumexp(by_part, axis=2)  # [θ, F, λ]
    reaches = lapse < 1 - grid.target
    best = over_sigma[:, :, reaches].max(axis=(1, 2))
    return Position(T, grid.theta, best, float(over_sigma.max()))
