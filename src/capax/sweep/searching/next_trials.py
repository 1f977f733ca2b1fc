"""The next trials: the m that determine the threshold best per unit of cost.

The information of a trial at m about (θ, σ, λ) is the Fisher information of a Bernoulli outcome,

    I_m = ∇ψ ∇ψᵀ / (ψ (1 - ψ)),

so a batch with n_m trials at m leaves θ with variance [(J + Σ n_m I_m)^-1]_θθ, J the information of
the trials already done plus that of the prior. The true parameters are unknown, so the relative
reduction of this variance is averaged over draws from the posterior: a wide posterior spreads the
batch, a narrow one gathers it around the threshold. Trials are added a few at a time, the inverse
follows by the Sherman-Morrison formula. The draws are logistic curves whose plateau exceeds the
target, as if m* existed.

Its existence is a separate question: as long as the trials leave a plateau below the target
possible, a third of every batch goes to the plateau, at the smallest m at which 97% of the rise is
expected. Without these trials no interval closes above, and they are cheap.

The cost of a trial is its expected number of restarts: a failing trial uses up all K of them, a
solved one stops early. With q = ψ(m) and independent restarts, E[restarts] = q / (1 - (1-q)^(1/K)).
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import expit, logit

from capax.sweep.searching.counts import Counts
from capax.sweep.searching.curve import CurveGrid, log_joint, posterior

_PRIOR_PRECISION = np.array([1e-2, 1.0 / 1.2**2, 1.0 / 0.2**2])
"""Prior information on (θ, log σ, λ): nearly zero, the log-normal, the range of λ."""


_RISEN = 0.97
_SURE = 0.01
"""The plateau is known to exceed the target if it is below with less than this probability."""
_STEPS = 16
"""A batch is filled in at most this many steps."""


def expected_restarts(q: Float[ndarray, "*s"], restarts: int) -> Float[ndarray, "*s"]:
    """Expected number of lazy restarts of a trial that succeeds with probability `q`."""
    q = np.clip(q, 1e-9, 1 - 1e-12)
    return q / -np.expm1(np.log1p(-q) / restarts)


def next_batch(
    grid: CurveGrid,
    counts: Counts,
    candidates: tuple[int, ...],
    size: int,
    *,
    restarts: int = 1,
    num_draws: int = 32,
    rows_of_a_start: float = math.inf,
    plateau: Callable[[int], int] | None = None,
) -> tuple[int, ...]:
    """The `size` values of m to try next, in increasing order. Deterministic.

    `restarts` = K is the cost of a failing trial; 1 means that all trials cost the same.
    plateau: m -> number of additional trials for the plateau while it is unknown; a third of `size`
    if None.
    rows_of_a_start: fixed cost of a run in examples, in addition to its m; infinite: the same cost
    for all m.
    """
    theta, sigma, lapse = _spread_draws(grid, counts, num_draws)
    done, _ = _scores(np.asarray(counts.m, dtype=np.float64), theta, sigma, lapse, grid)
    covariance = _covariance(counts, done)
    gradient, psi = _scores(np.asarray(candidates, dtype=np.float64), theta, sigma, lapse, grid)
    rows = 1 + np.asarray(candidates, dtype=np.float64) / rows_of_a_start
    cost = rows * expected_restarts(psi, restarts).mean(axis=0)
    at = _plateau_at(grid, counts, candidates, psi, lapse)
    chosen = [] if at is None else [at] * (size // 3 if plateau is None else plateau(at))
    size += 0 if plateau is None else len(chosen)
    while len(chosen) < size:
        copies = min(-(-size // _STEPS), size - len(chosen))
        along = gradient @ covariance
        spread = 1 / copies + (along * gradient).sum(axis=-1)
        gain = along[..., 0] ** 2 / spread / covariance[:, None, 0, 0]
        worth = gain.mean(axis=0) / cost
        best = int(np.argmax(np.round(worth / worth.max(), 9)))  # ties must not depend on rounding
        chosen += [candidates[best]] * copies
        a = along[:, best]
        covariance = covariance - a[:, :, None] * a[:, None, :] / spread[:, best, None, None]
    return tuple(sorted(chosen))


def _plateau_at(
    grid: CurveGrid,
    counts: Counts,
    candidates: tuple[int, ...],
    psi: Float[ndarray, "d c"],
    lapse: Float[ndarray, " d"],
) -> int | None:
    """The m of trials for the plateau; None at first, and when the plateau is known."""
    if not counts.trials:
        return None
    below = ~grid.nuisance.reaches
    if posterior(grid, counts)[:, below].sum() < _SURE:
        return None
    risen = (psi / (1 - lapse[:, None])).mean(axis=0) >= _RISEN
    return candidates[int(np.argmax(risen))] if risen.any() else candidates[-1]


def _spread_draws(
    grid: CurveGrid, counts: Counts, num_draws: int
) -> tuple[Float[ndarray, " d"], Float[ndarray, " d"], Float[ndarray, " d"]]:
    """Draws from the posterior without randomness: strata along θ, golden ratio across."""
    weibull, sigma, lapse, _, reaches = grid.nuisance
    kept = reaches & ~weibull
    log_kept = log_joint(grid, counts)[:, kept]
    weight = np.exp(log_kept - log_kept.max())
    marginal = weight.sum(axis=1)
    levels = (np.arange(num_draws) + 0.5) / num_draws
    rows = np.searchsorted(np.cumsum(marginal) / marginal.sum(), levels)
    rows = np.minimum(rows, marginal.size - 1)
    inner = np.cumsum(weight[rows], axis=1)
    golden = (np.arange(num_draws) * 0.6180339887498949 + 0.5) % 1.0
    columns = (inner < (golden * inner[:, -1])[:, None]).sum(axis=1)
    return grid.theta[rows], sigma[kept][columns], lapse[kept][columns]


def _scores(
    m: Float[ndarray, " c"],
    theta: Float[ndarray, " d"],
    sigma: Float[ndarray, " d"],
    lapse: Float[ndarray, " d"],
    grid: CurveGrid,
) -> tuple[Float[ndarray, "d c 3"], Float[ndarray, "d c"]]:
    """∇ψ / sqrt(ψ(1-ψ)) with respect to (θ, log σ, λ), and ψ itself."""
    sigma, lapse = sigma[:, None], lapse[:, None]
    scaled = (np.log(m)[None, :] - theta[:, None]) / sigma
    share = grid.target / (1 - lapse)
    unit = expit(logit(share) + scaled)
    psi = np.clip((1 - lapse) * unit, 1e-9, 1 - 1e-9)
    slope = (1 - lapse) * unit * (1 - unit)
    # d logit(share)/dλ = share'/(share (1-share)) with share' = share/(1-λ)
    by_lapse = -unit + slope / ((1 - share) * (1 - lapse))
    gradient = np.stack([-slope / sigma, -slope * scaled, by_lapse], axis=-1)
    return gradient / np.sqrt(psi * (1 - psi))[..., None], psi


def _covariance(counts: Counts, gradient: Float[ndarray, "d i 3"]) -> Float[ndarray, "d 3 3"]:
    """Inverse information of the prior and of the trials already done, at every draw."""
    done = np.asarray(counts.total, dtype=np.float64)
    information = np.einsum("dci,c,dcj->dij", gradient, done, gradient)
    return np.linalg.inv(information + np.diag(_PRIOR_PRECISION))
