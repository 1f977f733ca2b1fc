"""D(N, K) against enumeration, and its bound against D(N, K)."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.covers.delannoy import log_delannoy, log_delannoy_bound, log_sum_signed_subsets
from capax.errors import InfeasibleError, InputError


def count_integer_points(N, K):
    return sum(sum(map(abs, c)) <= K for c in itertools.product(range(-K, K + 1), repeat=N))


def big_integer_delannoy(N, K):
    return sum(2**j * math.comb(N, j) * math.comb(K, j) for j in range(min(N, K) + 1))


@pytest.mark.parametrize("N, K", [(1, 1), (1, 7), (2, 5), (3, 4), (4, 3), (5, 2), (3, 0)])
def test_delannoy_counts_integer_points_of_the_l1_ball(N, K):
    assert log_delannoy(N, K) == pytest.approx(math.log(count_integer_points(N, K)), abs=1e-12)


@settings(max_examples=30)
@given(N=st.integers(1, 1500), K=st.integers(0, 1500))
def test_delannoy_equals_big_integer_sum_and_stays_below_its_bound(N, K):
    exact = math.log(big_integer_delannoy(N, K))
    assert log_delannoy(N, K) == pytest.approx(exact, rel=1e-11, abs=1e-12)
    assert exact <= log_delannoy_bound(N, K) * (1 + 1e-13)
    assert log_delannoy_bound(N, K) <= exact + math.log(min(N, K) + 1) / 2 + 2


@given(log_N=st.floats(0, 60), log_K=st.floats(0, 600), step=st.floats(1.0, 5.0))
def test_the_bound_is_monotone_and_finite_at_any_size(log_N, log_K, step):
    N, K = math.exp(log_N), math.exp(log_K)
    value = log_delannoy_bound(N, K)
    assert 0 < value < math.inf
    assert value <= log_delannoy_bound(N * step, K) * (1 + 1e-12)
    assert value <= log_delannoy_bound(N, K * step) * (1 + 1e-12)


def test_the_bound_loses_no_digits_when_the_two_sizes_differ_hugely():
    exact = math.log(big_integer_delannoy(3, 10**15))
    assert exact <= log_delannoy_bound(3, 10**15) <= exact + 2


@given(N=st.integers(1, 200), k=st.integers(0, 200))
def test_signed_subsets(N, k):
    exact = sum(2**j * math.comb(N, j) for j in range(min(k, N) + 1))
    assert log_sum_signed_subsets(N, k) == pytest.approx(math.log(exact), rel=1e-11, abs=1e-12)


def test_signed_subsets_of_huge_sets_is_a_lower_bound():
    N, k = 10**7, 2 * 10**6
    largest = k * math.log(2) + math.lgamma(N + 1) - math.lgamma(k + 1) - math.lgamma(N - k + 1)
    assert 0.6 * largest < log_sum_signed_subsets(N, k) <= largest


@pytest.mark.parametrize("N, K", [(-1, 3), (3, -1)])
def test_negative_counts_are_refused(N, K):
    with pytest.raises(InputError, match="wanted an integer >= 0"):
        log_delannoy(N, K)
    with pytest.raises(InputError, match="wanted a number >= 0"):
        log_delannoy_bound(N, K)


def test_too_many_terms_is_said():
    with pytest.raises(InfeasibleError, match="at most 1000000 terms"):
        log_delannoy(10**7, 10**7)
