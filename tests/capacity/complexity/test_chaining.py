"""The chain: closed form against a numerical optimiser, against textbook Dudley, and monotone."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from capax.capacity.complexity.chaining import (
    chain_bound,
    dudley,
    dudley_quadratic,
    massart,
    rademacher_closed_form,
    rademacher_from_cover,
    rademacher_from_log_cover,
)
from capax.errors import InputError

both = pytest.mark.parametrize("external", [False, True])


def chain_by_nelder_mead(C, A, m, levels, external):
    """The best chain with `levels` levels, its scales found by a general-purpose optimiser."""

    def value(logs):
        scales = [A, *(A * np.exp(-np.cumsum(np.abs(logs) + 1e-9)))]
        return chain_bound(scales, [C / e**2 for e in scales[1:]], m, external=external)

    start = np.full(levels, 0.8)
    options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 20_000, "maxfev": 20_000}
    return minimize(value, start, method="Nelder-Mead", options=options).fun


@both
@pytest.mark.parametrize("ratio", [1e-2, 1e-3, 1e-5])
def test_closed_form_is_the_optimum_over_all_scales(ratio, external):
    m, A = 1000, 1.0
    best = min(chain_by_nelder_mead(ratio * m, A, m, J, external) for J in range(1, 7))
    closed = rademacher_from_cover(ratio * m, A, m, external=external)
    assert min(A, best) == pytest.approx(closed, rel=2e-4)
    assert closed <= best * (1 + 1e-9) or not external


@both
@given(C=st.floats(1e-6, 1e3), A=st.floats(1e-3, 1e2), m=st.integers(1, 10**6))
@settings(max_examples=20)
def test_grid_search_on_a_callable_finds_the_closed_form(external, C, A, m):
    closed = rademacher_from_cover(C, A, m, external=external)
    grid = rademacher_from_log_cover(lambda e: C / e**2, A, m, external=external)
    assert grid >= closed * (1 - 1e-9) or external
    assert grid <= closed * 1.01
    assert closed <= rademacher_closed_form(C, A, m, external=external) * (1 + 1e-12)


@given(C=st.floats(1e-9, 1e9), A=st.floats(1e-6, 1e6), m=st.integers(1, 10**9), t=st.floats(1, 100))
def test_complexity_grows_with_C_and_A_and_falls_with_m(C, A, m, t):
    for external in (False, True):
        value = rademacher_from_cover(C, A, m, external=external)
        assert 0 < value <= A
        assert value <= rademacher_from_cover(C * t, A, m, external=external) * (1 + 1e-12)
        assert value <= rademacher_from_cover(C, A * t, m, external=external) * (1 + 1e-12)
        more = math.ceil(m * t)
        assert rademacher_from_cover(C, A, more, external=external) <= value * (1 + 1e-12)
    assert rademacher_from_cover(C, A, m) <= rademacher_from_cover(C, A, m, external=True)


@pytest.mark.parametrize("ratio", [1e-3, 1e-5, 1e-7, 1e-9])
def test_two_to_three_times_smaller_than_textbook_dudley(ratio):
    m = 10**6
    textbook = dudley_quadratic(ratio * m, 1.0, m)
    assert 2.6 < textbook / rademacher_from_cover(ratio * m, 1.0, m) < 3.1
    assert 2.1 < textbook / rademacher_from_cover(ratio * m, 1.0, m, external=True) < 2.4


def test_numerical_dudley_matches_its_closed_form_from_above():
    for C in (1e-6, 1e-5, 1e-4):
        closed = dudley_quadratic(C * 1000, 1.0, 1000)
        assert closed <= dudley(lambda e, C=C: C * 1000 / e**2, 1.0, 1000) <= closed * 1.01


def test_finite_class_is_massart_or_better():
    """For a class of n functions the chain may jump to scale 0: never worse than Massart."""
    value = rademacher_from_log_cover(lambda _: math.log(8), 1.0, 400)
    assert value <= massart(1.0, math.log(8), 400) * (1 + 1e-9)


def test_small_A_never_turns_negative():
    assert rademacher_from_cover(100.0, 1e-3, 10) == 1e-3
    assert rademacher_closed_form(100.0, 1e-3, 10) == 1e-3


def test_degenerate_classes_have_no_complexity():
    assert rademacher_from_cover(0, 1.0, 10) == rademacher_from_cover(5.0, 0, 10) == 0
    assert rademacher_closed_form(0, 1.0, 10) == dudley_quadratic(0, 1.0, 10) == 0
    assert rademacher_from_log_cover(lambda _: 1.0, 0, 10) == dudley(lambda _: 1.0, 0, 10) == 0
    assert massart(0, math.inf, 10) == 0


def test_infinite_constants_give_the_trivial_bound():
    assert rademacher_from_cover(math.inf, 0.5, 10) == 0.5
    assert rademacher_closed_form(math.inf, 0.5, 10) == 0.5
    assert dudley_quadratic(math.inf, 0.5, 10) == 0.5


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: rademacher_from_cover(math.nan, 1, 5), "C: wanted a number >= 0, got nan"),
        (lambda: rademacher_from_cover(1, -1, 5), "A: wanted a number >= 0, got -1"),
        (lambda: rademacher_from_cover(1, 1, 0), "m: wanted a finite number > 0, got 0"),
        (lambda: massart(1, -1, 5), "log_count: wanted a number >= 0, got -1"),
        (lambda: massart(1, 1, 0), "m: wanted an integer >= 1, got 0"),
        (lambda: chain_bound([1.0, 2.0], [1.0], 5), "scales: wanted strictly decreasing"),
        (lambda: chain_bound([1.0], [1.0], 5), "scales: wanted one more than log_covers, got 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)
