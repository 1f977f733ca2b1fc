"""The success curve against its definition, the interval against brute force."""

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from capax.errors import InputError
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.curve import (
    CurveGrid,
    _at_even_odds,
    estimate,
    log_likelihood,
    posterior,
    success_probability,
)


def fitted(counts):
    return estimate(CurveGrid.fitted(counts), counts)


@pytest.mark.parametrize("weibull", [False, True])
@pytest.mark.parametrize(("sigma", "lapse"), [(0.1, 0.0), (0.3, 0.05), (0.7, 0.15)])
def test_theta_is_where_the_curve_reaches_the_target(sigma, lapse, weibull):
    at = success_probability(np.array([70.0]), math.log(70), sigma, lapse, weibull=weibull)
    assert at[0] == pytest.approx(0.8, abs=1e-12)
    far = success_probability(np.array([1e9]), math.log(70), sigma, lapse, weibull=weibull)
    assert far[0] <= 1 - lapse


@pytest.mark.parametrize("weibull", [False, True])
def test_below_the_target_theta_is_the_middle_of_the_rise(weibull):
    at = success_probability(np.array([70.0, 1e9]), math.log(70), 0.2, 0.4, weibull=weibull)
    assert at == pytest.approx([0.3, 0.6], abs=1e-12)


def test_the_posterior_is_prior_times_binomial_likelihood():
    """Against a direct loop over the grid (no tables, no shared code)."""
    grid = CurveGrid(5, 200, num_theta=7, num_sigma=3, num_above=2, num_below=2)
    counts = Counts((11, 31, 61), (0, 3, 5), (2, 7, 5))
    weibull, sigma, lapse, log_prior, reaches = grid.nuisance
    assert np.exp(log_prior).sum() == pytest.approx(1.0)
    direct = np.zeros((7, sigma.size))
    for i, theta in enumerate(grid.theta):
        for j in range(sigma.size):
            total, plateau = log_prior[j], 1 - lapse[j]
            share = 0.8 / plateau if plateau > 0.8 else 0.5
            assert reaches[j] == (plateau > 0.8)
            for m, k, n in zip(counts.m, counts.solved, counts.total, strict=True):
                along = (math.log(m) - theta) / sigma[j]
                if weibull[j]:
                    step = 1 - math.exp(-math.exp(math.log(-math.log(1 - share)) + along))
                else:
                    step = expit(logit(share) + along)
                psi = min(max(plateau * step, 1e-12), 1 - 1e-9)
                total += k * math.log(psi) + (n - k) * math.log1p(-psi)
            direct[i, j] = total
    weight = np.exp(direct - direct.max())
    expected = weight / weight.sum()
    assert np.allclose(posterior(grid, counts), expected, atol=1e-12)
    inside = [np.exp(log_prior[chosen]).sum() for chosen in (reaches, ~reaches)]
    there = np.exp(direct[:, reaches]).sum(axis=1) / inside[0]
    never = np.exp(direct[:, ~reaches]).sum() / inside[1]
    found = _at_even_odds(grid, expected[:, reaches].sum(axis=1))
    assert np.allclose(found, there / (there.sum() + never), atol=1e-12)


def test_lapse_is_uniform_a_priori():
    """Half of the prior lies where the plateau is below one half, a fifth where m* exists."""
    nuisance = CurveGrid(5, 200, num_above=12, num_below=7).nuisance
    prior = np.exp(nuisance.log_prior)
    assert prior[nuisance.reaches].sum() == pytest.approx(0.2)
    assert prior[~nuisance.weibull].sum() == pytest.approx(0.5)
    assert prior @ nuisance.lapse == pytest.approx(0.5, abs=0.02)


def test_plenty_of_data_gives_a_narrow_interval_around_the_truth():
    m = np.arange(20, 151, 10)
    psi = success_probability(m.astype(float), math.log(70), 0.2, 0.03)
    counts = Counts(tuple(m.tolist()), tuple(int(x) for x in np.rint(psi * 2000)), (2000,) * m.size)
    found = estimate(CurveGrid.fitted(counts), counts)
    assert found.low is not None and found.high is not None
    assert found.low <= 70 <= found.high
    assert found.high / found.low < 1.08
    assert found.sigma == pytest.approx(0.2, rel=0.25)
    assert found.plateau == pytest.approx(0.97, abs=0.02)


def test_only_what_was_tried_is_claimed():
    """All solved, none solved, and none solved with hardly a trial: bounds, but no number."""
    tried = (20, 50, 100)
    always = fitted(Counts(tried, (30, 30, 30), (30, 30, 30)))
    assert (always.m_star, always.low, always.high) == (None, None, 20)
    never = fitted(Counts(tried, (0, 0, 0), (4, 4, 4)))
    assert (never.m_star, never.low, never.high) == (None, 101, None)
    assert never.unreached and not never.levelled and never.log_width == math.inf
    hardly = fitted(Counts((100,), (1,), (1,)))
    assert (hardly.low, hardly.high) == (None, None)


@pytest.mark.parametrize(
    ("solved", "total", "beyond"),
    [
        ((0, 0, 0, 0, 0, 2), (1, 1, 1, 1, 1, 3), False),
        ((0, 1, 0, 0, 1, 0), (1, 2, 1, 1, 1, 1), False),
        ((0, 0, 0, 0, 0, 0), (1, 1, 1, 1, 1, 4), True),
        ((0, 4, 4, 5, 6, 12), (10, 10, 10, 10, 10, 40), True),
    ],
)
def test_few_trials_do_not_put_m_star_beyond_the_largest_m(solved, total, beyond):
    """The first two were said to show m* > 640 in a simulated card whose m* was 560: the prior said
    so, not the trials. Four failures, or 12 of 40, do. By brute force: the posterior at even odds
    of an m*, from the likelihood on the grid."""
    counts = Counts((320, 353, 390, 453, 580, 640), solved, total)
    grid = CurveGrid.fitted(counts)
    assert estimate(grid, counts).unreached == beyond
    assert (below_at_even_odds(grid, counts, 640) < 0.025) == beyond


def below_at_even_odds(grid, counts, m):
    """P[m* <= m | trials] by brute force, if there is an m* with probability 1/2."""
    joint = np.exp(log_likelihood(grid, counts) + grid.nuisance.log_prior)
    reaches, prior = grid.nuisance.reaches, np.exp(grid.nuisance.log_prior)
    there = joint[:, reaches].sum(axis=1) / prior[reaches].sum()
    never = joint[:, ~reaches].sum() / prior[~reaches].sum()
    return there[grid.theta <= math.log(m)].sum() / (there.sum() + never)


@pytest.mark.parametrize("solved", [(0, 2, 5, 8, 9, 10), (0, 1, 4, 7, 8, 8), (0, 2, 5, 6, 6, 7)])
def test_a_lower_end_leaves_out_2_5_percent_at_even_odds(solved):
    """Neither more nor less: the sum up to the end, and up to the next points of the grid."""
    counts = Counts((20, 28, 40, 57, 80, 113), solved, (10,) * 6)
    grid = CurveGrid.fitted(counts)
    low, step = estimate(grid, counts).low, math.exp(grid.theta[1] - grid.theta[0])
    assert below_at_even_odds(grid, counts, low / step**2) < 0.025
    assert below_at_even_odds(grid, counts, low * step**2) > 0.025


def test_a_plateau_below_the_target_is_said_to_be_one():
    counts = Counts((20, 40, 60, 80, 100, 150), (1, 30, 62, 58, 60, 61), (100,) * 6)
    found = estimate(CurveGrid.fitted(counts), counts)
    assert found.m_star is None and found.unreached and found.levelled
    assert found.plateau == pytest.approx(0.6, abs=0.04)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CurveGrid(0, 10), "m_low: wanted at least 1"),
        (lambda: CurveGrid(10, 9), "m_high: wanted at least m_low = 10"),
        (lambda: CurveGrid(1, 10, target=1.0), "target: wanted a probability"),
        (lambda: estimate(CurveGrid(1, 9), Counts((), (), ())), "counts: wanted at least one"),
    ],
)
def test_impossible_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()
