"""VC, fat-shattering and Rademacher complexity against brute force and against each other."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.complexity.fat_shattering import fat_shattering_dimension, log_cover_from_fat
from capax.capacity.complexity.rademacher import (
    rademacher_exact,
    rademacher_from_curve,
    rademacher_massart,
    rademacher_monte_carlo,
)
from capax.capacity.complexity.vc import (
    growth_function,
    log_cover_from_vc,
    log_sauer,
    log_sauer_power,
    vc_dimension,
)
from capax.capacity.covers.covering_classes import cover_worst_case
from capax.errors import InfeasibleError, InputError

seeds = st.integers(0, 2**32 - 1)


def brute_force_vc(table):
    best = 0
    for d in range(1, table.shape[1] + 1):
        for points in itertools.combinations(range(table.shape[1]), d):
            if len({tuple(row) for row in table[:, points]}) == 2**d:
                best = d
    return best


def brute_force_fat(table, gamma):
    """Every set of points, every witness r = v + gamma with v a value, every pattern."""
    best = 0
    for d in range(1, table.shape[1] + 1):
        for points in itertools.combinations(range(table.shape[1]), d):
            witnesses = itertools.product(*(np.unique(table[:, p]) + gamma for p in points))
            if any(is_fat_shattered(table[:, points], np.array(r), gamma) for r in witnesses):
                best = d
    return best


def is_fat_shattered(columns, r, gamma):
    up, down = columns >= r + gamma - 1e-9, columns <= r - gamma + 1e-9
    patterns = itertools.product([True, False], repeat=len(r))
    return all(np.where(np.array(b), up, down).all(axis=1).any() for b in patterns)


@given(seeds, st.integers(1, 20), st.integers(1, 5))
def test_vc_dimension_and_growth_against_brute_force_and_sauer(seed, n, points):
    table = np.random.default_rng(seed).integers(0, 2, size=(n, points))
    found = vc_dimension(table)
    assert found.dimension == brute_force_vc(table) == len(found.tests)
    for m in range(1, points + 1):
        growth = growth_function(table, m)
        assert math.log(growth) <= log_sauer(m, found.dimension) + 1e-12
        if found.dimension >= 1 and m >= found.dimension:
            assert log_sauer(m, found.dimension) <= log_sauer_power(m, found.dimension)
    assert growth_function(table, max(1, found.dimension)) >= 2**found.dimension


def test_known_vc_dimensions():
    points = np.arange(6)
    thresholds = [points >= t for t in range(7)]
    intervals = [(points >= a) & (points < b) for a in range(7) for b in range(a, 7)]
    assert vc_dimension(thresholds).dimension == 1
    assert vc_dimension(intervals).dimension == 2
    cube = list(itertools.product([0, 1], repeat=4))
    assert vc_dimension(cube).tests == (0, 1, 2, 3)
    assert vc_dimension([[0, 1, 1]]).dimension == 0


def test_sauer_at_any_size():
    assert log_sauer(5, 2) == pytest.approx(math.log(1 + 5 + 10))
    assert log_sauer(3, 7) == pytest.approx(math.log(8))
    assert log_sauer(10**9, 3) == pytest.approx(math.log(math.comb(10**9, 3)), rel=1e-8)
    assert log_sauer(10**12, 10**7) <= log_sauer_power(10**12, 10**7)
    assert log_cover_from_vc(5, 2, 0.5) == log_sauer(5, 2)
    assert log_cover_from_vc(5, 2, 1.0) == 0


@settings(max_examples=30)
@given(seeds, st.integers(1, 8), st.integers(1, 3), st.sampled_from([0.25, 0.5, 1.0]))
def test_fat_shattering_against_brute_force(seed, n, points, gamma):
    table = np.random.default_rng(seed).integers(0, 4, size=(n, points)).astype(float)
    found = fat_shattering_dimension(table, gamma)
    assert found.dimension == brute_force_fat(table, gamma)
    assert fat_shattering_dimension(table, gamma * 1.5).dimension <= found.dimension


def test_fat_shattering_of_a_binary_class_is_its_vc_dimension():
    table = np.random.default_rng(1).integers(0, 2, size=(12, 5)).astype(float)
    assert fat_shattering_dimension(table, 0.5).dimension == vc_dimension(table).dimension
    assert fat_shattering_dimension(table, 0.51).dimension == 0


@settings(max_examples=15)
@given(seeds, st.sampled_from([0.25, 0.5, 1.0]), st.integers(2, 4))
def test_fat_shattering_bounds_the_worst_case_cover(seed, eps, m):
    table = np.random.default_rng(seed).integers(0, 9, size=(10, 4)) / 8.0
    fat = fat_shattering_dimension(table, eps / 4).dimension
    if 1 <= fat <= m:
        worst = cover_worst_case(table, eps, m)
        assert worst.log_upper < log_cover_from_fat(m, fat, eps)


def test_the_fat_formula_recomputed():
    m, fat, eps = 10, 2, 0.5
    b, y = 4, 10 * 4 + 45 * 16
    expected = math.log(2) + math.ceil(math.log2(y)) * math.log(m * (b + 1) ** 2)
    assert log_cover_from_fat(m, fat, eps) == pytest.approx(expected)
    assert log_cover_from_fat(10**9, 2 * 10**6, 0.01) < math.inf


def test_rademacher_by_hand():
    """F = {+-1 constant} on m points: E |mean sigma|; a single function: 0."""
    assert rademacher_exact([[1.0, 1.0], [-1.0, -1.0]]).value == pytest.approx(0.5)
    assert rademacher_exact([[3.0, -2.0, 5.0]]).value == pytest.approx(0)
    cube = list(itertools.product([-1.0, 1.0], repeat=3))
    assert rademacher_exact(cube).value == pytest.approx(1.0)


def test_monte_carlo_interval_contains_the_truth():
    """Failure probability of the test: 20 intervals at 1e-4 each, 0.2 % (keys are fixed)."""
    for key in range(20):
        values = np.random.default_rng(key).standard_normal((9, 7)) + 3.0
        exact = rademacher_exact(values)
        estimate = rademacher_monte_carlo(values, 500, delta=1e-4, key=key)
        assert estimate.lower <= exact.value <= estimate.upper
        assert exact.exact
        assert not estimate.exact


@settings(max_examples=15)
@given(seeds, st.integers(2, 12))
def test_massart_and_the_chain_lie_above_the_exact_value(seed, n):
    values = np.random.default_rng(seed).standard_normal((n, 6))
    exact = rademacher_exact(values).value
    assert exact <= rademacher_massart(values) + 1e-12
    assert exact <= rademacher_from_curve(values) + 1e-12


def test_a_single_function_has_no_complexity():
    assert rademacher_massart([[1.0, 2.0]]) == rademacher_from_curve([[1.0, 2.0]]) == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: vc_dimension([[0, 2]]), "values: wanted zeros and ones only, got 2.0"),
        (lambda: vc_dimension([0, 1]), "values: wanted a table [functions, points]"),
        (lambda: vc_dimension(np.zeros((0, 3))), "values: wanted at least one function"),
        (lambda: growth_function([[0, 1]], 0), "m: wanted an integer >= 1, got 0"),
        (lambda: log_sauer_power(3, 0), "d: wanted an integer >= 1, got 0"),
        (lambda: log_sauer_power(1, 100), "m: wanted at least d = 100, got 1"),
        (lambda: log_cover_from_vc(3, 1, 0), "eps: wanted a number > 0, got 0"),
        (lambda: fat_shattering_dimension([[math.nan]], 1), "values: wanted finite numbers"),
        (lambda: fat_shattering_dimension([1.0], 1), "values: wanted a table"),
        (lambda: fat_shattering_dimension([[1.0]], 0), "gamma: wanted a finite number > 0"),
        (lambda: log_cover_from_fat(1, 2, 0.5), "m: wanted at least fat = 2, got 1"),
        (lambda: log_cover_from_fat(5, 2, 1.5), "eps: wanted 0 < eps <= 1, got 1.5"),
        (lambda: rademacher_exact([[math.inf]]), "values: wanted finite numbers only"),
        (lambda: rademacher_exact([1.0]), "values: wanted a table [functions, m]"),
        (lambda: rademacher_monte_carlo([[1.0]], 5, delta=1.0, key=0), "delta: wanted a number"),
        (lambda: rademacher_monte_carlo([[1.0]], 0, key=0), "draws: wanted an integer >= 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_searches_that_are_too_long_say_so():
    with pytest.raises(InfeasibleError, match="at most 20 points"):
        rademacher_exact(np.zeros((2, 21)))
    with pytest.raises(InfeasibleError, match="at most 200000 subsets"):
        growth_function(np.zeros((2, 60)), 10)
    table = np.random.default_rng(0).integers(0, 2, size=(600, 60))
    with pytest.raises(InfeasibleError, match="the dimension is at least"):
        vc_dimension(table)
