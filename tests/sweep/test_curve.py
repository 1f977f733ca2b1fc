"""The success curve against its definition, the interval against brute force."""

import math

import numpy as np
import pytest
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from capax.errors import InputError
from capax.sweep.curve import (
    Counts,
    CurveGrid,
    estimate,
    isotonic_rates,
    isotonic_threshold,
    log_posterior,
    success_probability,
)


@pytest.mark.parametrize(("sigma", "lapse"), [(0.1, 0.0), (0.3, 0.05), (0.7, 0.15)])
def test_theta_is_where_the_curve_reaches_the_target(sigma, lapse):
    at = success_probability(np.array([70.0]), math.log(70), sigma, lapse)
    assert at[0] == pytest.approx(0.8, abs=1e-12)
    assert success_probability(np.array([1e9]), math.log(70), sigma, lapse)[0] <= 1 - lapse


def test_the_posterior_is_prior_times_binomial_likelihood():
    """Against a direct loop over the grid (no tables, no shared code)."""
    grid = CurveGrid(5, 200, num_theta=7, num_sigma=3, num_lapse=2)
    counts = Counts((11, 31, 61), (0, 3, 5), (2, 7, 5))
    sigma, lapse, log_prior = grid.nuisance
    direct = np.zeros((7, 6))
    for i, theta in enumerate(grid.theta):
        for j in range(6):
            total = log_prior[j]
            for m, k, n in zip(counts.m, counts.solved, counts.total, strict=True):
                z = logit(0.8 / (1 - lapse[j])) + (math.log(m) - theta) / sigma[j]
                psi = min(max((1 - lapse[j]) * expit(z), 1e-12), 1 - 1e-9)
                total += k * math.log(psi) + (n - k) * math.log1p(-psi)
            direct[i, j] = total
    weight = np.exp(direct - direct.max())
    expected = weight / weight.sum()
    assert np.allclose(np.exp(log_posterior(grid, counts)), expected, atol=1e-12)


def test_a_cache_of_more_values_changes_nothing():
    grid = CurveGrid(5, 200)
    counts = Counts((11, 31, 61), (0, 3, 5), (2, 7, 5))
    more = estimate(grid, counts, values=(7, 11, 13, 31, 61, 101))
    found = estimate(grid, counts)
    assert (more.low, more.m_star, more.high) == (found.low, found.m_star, found.high)
    assert more.sigma == pytest.approx(found.sigma, rel=1e-12)


def test_plenty_of_data_gives_a_narrow_interval_around_the_truth():
    m = np.arange(20, 151, 10)
    psi = success_probability(m.astype(float), math.log(70), 0.2, 0.03)
    counts = Counts(tuple(m.tolist()), tuple(int(x) for x in np.rint(psi * 2000)), (2000,) * m.size)
    found = estimate(CurveGrid.fine(10, 300), counts)
    assert found.low is not None and found.high is not None
    assert found.low <= 70 <= found.high
    assert found.high / found.low < 1.08
    assert found.sigma == pytest.approx(0.2, rel=0.25)
    assert found.lapse == pytest.approx(0.03, abs=0.02)


def test_open_sides_are_said_to_be_open():
    grid = CurveGrid(10, 300)
    always = estimate(grid, Counts((20, 50, 100), (30, 30, 30), (30, 30, 30)))
    never = estimate(grid, Counts((20, 50, 100), (0, 0, 0), (30, 30, 30)))
    assert always.low is None and always.high is not None and always.high <= 30
    assert never.high is None and never.low is not None and never.low >= 90
    assert never.log_width == math.inf


def test_isotonic_rates_against_scipy():
    rng = np.random.default_rng(3)
    total = rng.integers(1, 9, 13)
    solved = rng.integers(0, total + 1)
    counts = Counts(tuple(range(1, 14)), tuple(solved.tolist()), tuple(total.tolist()))
    expected = isotonic_regression(solved / total, weights=total).x
    assert np.allclose(isotonic_rates(counts), expected)


def test_isotonic_threshold():
    assert isotonic_threshold(Counts((10, 20, 30), (0, 9, 10), (10, 10, 10))) == 20
    assert isotonic_threshold(Counts((10, 20), (0, 5), (10, 10))) is None


def test_counting_pairs():
    counts = Counts.of([(20, True), (10, False), (20, False), (20, True)])
    assert counts == Counts((10, 20), (0, 2), (1, 3))
    assert counts.trials == 4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CurveGrid(0, 10), "m_low: wanted at least 1"),
        (lambda: CurveGrid(10, 10), "m_high: wanted more than m_low = 10"),
        (lambda: CurveGrid(1, 10, target=1.0), "target: wanted a probability"),
        (lambda: Counts((1,), (2,), (1,)), "solved: wanted between 0 and total = 1"),
        (lambda: Counts((0,), (0,), (1,)), "m: wanted at least 1"),
        (lambda: Counts((1, 2), (0,), (1,)), "counts: wanted equal lengths"),
        (lambda: estimate(CurveGrid(1, 9), Counts((), (), ())), "counts: wanted at least one"),
    ],
)
def test_impossible_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()
