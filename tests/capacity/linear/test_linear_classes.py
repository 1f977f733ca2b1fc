"""Covers of linear classes: orders between bounds, monotonicity, limits, and bad input."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.covers.volume import log_cover_parametric
from capax.capacity.linear.linear_classes import (
    log_cover_lower,
    log_cover_matrix,
    log_cover_matrix_21,
    log_cover_matrix_frobenius,
    log_cover_vector,
    log_delannoy,
    log_log_cover_matrix_21,
    log_log_cover_vector,
    num_updates,
    quadratic_constant_matrix_21,
    quadratic_constant_vector,
    zhang_bound,
)
from capax.errors import InputError

norms = st.floats(1e-3, 1e3)
radii = st.floats(1e-3, 1e3)
counts = st.integers(1, 10**9)
growth = st.floats(1.0, 10.0)


@given(norms, norms, radii, counts)
def test_lower_bound_below_external_below_internal_below_quadratic(a, b, eps, N):
    lower, external = log_cover_lower(a, b, eps, N), log_cover_vector(a, b, eps, N)
    internal = log_cover_vector(a, b, eps, N, internal=True)
    assert lower <= external * (1 + 1e-12)
    assert external <= internal
    assert internal <= quadratic_constant_vector(a, b, N) / eps**2 * (1 + 1e-11)
    assert internal <= zhang_bound(a, b, eps, N)


@given(norms, norms, radii, counts, st.integers(1, 50))
def test_matrix_cover_below_its_quadratic_form(B, b, eps, N, k):
    value = log_cover_matrix_21(B, b, eps, N, k)
    assert value <= quadratic_constant_matrix_21(B, b, N, k) / eps**2 * (1 + 1e-11)
    assert value >= log_cover_vector(B, b, eps, N) * (1 - 1e-12)  # one row is a special case


COVERS = {
    "vector": lambda a, b, eps, N: log_cover_vector(a, b, eps, N),
    "vector, p = 3": lambda a, b, eps, N: log_cover_vector(a, b, eps, N, 3),
    "vector, internal": lambda a, b, eps, N: log_cover_vector(a, b, eps, N, internal=True),
    "Lemma 4.6": lambda a, b, eps, N: log_cover_matrix_21(a, b, eps, N, 7),
    "Frobenius": lambda a, b, eps, N: log_cover_matrix_frobenius(a, b, eps, N, 7),
    "best": lambda a, b, eps, N: log_cover_matrix(a, a, b, eps, N, 7, 11),
    "parametric": lambda a, b, eps, _: log_cover_parametric(13, a, b, eps),
    "Zhang": lambda a, b, eps, N: zhang_bound(a, b, eps, N),
    "lower": lambda a, b, eps, N: log_cover_lower(a, b, eps, N),
}


@pytest.mark.parametrize("name", COVERS)
@settings(max_examples=30)
@given(a=norms, b=norms, eps=radii, N=counts, t=growth)
def test_every_cover_grows_with_norms_and_points_and_shrinks_with_eps(name, a, b, eps, N, t):
    cover = COVERS[name]
    value, slack = cover(a, b, eps, N), 1 + 1e-12
    assert value <= cover(a * t, b, eps, N) * slack
    assert value <= cover(a, b * t, eps, N) * slack
    assert value <= cover(a, b, eps / t, N) * slack
    assert value <= cover(a, b, eps, math.ceil(N * t)) * slack


def test_a_class_inside_the_tolerance_needs_one_function():
    for cover in COVERS.values():
        assert cover(0.5, 0.5, 0.25, 100) == 0 or cover is COVERS["Zhang"]
        assert cover(0, 0.5, 0.25, 100) == 0


def test_number_of_updates_is_the_largest_integer_below():
    assert [num_updates(r, 1, 1) for r in (0, 1, 1.2, 1.5, 2, 3, 3.1)] == [0, 0, 1, 2, 3, 8, 9]
    assert num_updates(1.0, 1.0, 1.0, 5) == 0
    assert num_updates(1, 1, 0.5, 2) == 7
    assert num_updates(0.3, 1, 0.1) == 8  # the float 0.3 is below three times the float 0.1
    assert num_updates(1e200, 1e200, 1) == math.inf
    assert num_updates(1e20, 1, 1) == pytest.approx(1e40)


def test_zhang_is_tens_to_hundreds_of_times_larger():
    ratios = [
        zhang_bound(r, 1, 1, 10**n) / log_cover_vector(r, 1, 1, 10**n)
        for r in (2.0, 5.0, 10.0, 30.0)
        for n in (2, 3, 4, 6)
    ]
    assert 50 < min(ratios) < 60
    assert 800 < max(ratios) < 860


def test_the_best_matrix_cover_is_the_smallest():
    parts = (
        log_cover_matrix_21(4.0, 2.0, 0.5, 1000, 5),
        log_cover_matrix_frobenius(3.0, 2.0, 0.5, 1000, 5),
        log_cover_parametric(35, 3.0, 2.0, 0.5),
    )
    assert log_cover_matrix(4.0, 3.0, 2.0, 0.5, 1000, 5, 7) == min(parts)


@pytest.mark.parametrize("ratio", [1.5, 30.0, 1e4, 1e9])
def test_log_log_forms_agree_with_the_plain_ones(ratio):
    N, k = 10**6, 3
    internal = log_cover_vector(ratio, 1, 1, N, internal=True)
    assert internal <= math.exp(log_log_cover_vector(math.log(ratio), N)) * (1 + 1e-9)
    plain = log_cover_matrix_21(ratio, 1, 1, N, k, rhos=(2.0,))
    assert plain <= math.exp(log_log_cover_matrix_21(math.log(ratio), N, k)) * (1 + 1e-9)


def test_numbers_beyond_floats():
    assert log_cover_vector(1e200, 1e200, 1e-3, 10**9) == math.inf
    assert log_cover_matrix_21(1e200, 1e200, 1e-3, 10**9, 64) == math.inf
    assert zhang_bound(1e200, 1e200, 1e-3, 10**9) == math.inf
    assert log_log_cover_vector(1000.0, 10**9) == pytest.approx(2000 + math.log(21.4), abs=0.01)
    assert 2000 < log_log_cover_matrix_21(1000.0, 10**9, 64) < 2010
    assert log_log_cover_vector(-1.0, 5) == log_log_cover_matrix_21(0.0, 5, 2) == -math.inf
    assert math.isfinite(log_cover_vector(1e70, 1e70, 1e-3, 10**30))


def test_delannoy_is_offered_here_too():
    assert log_delannoy(2, 1) == pytest.approx(math.log(5))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((math.nan, 1, 1, 5), "a: wanted a number >= 0, got nan"),
        ((-1, 1, 1, 5), "a: wanted a number >= 0, got -1"),
        ((1, math.nan, 1, 5), "b: wanted a number >= 0, got nan"),
        ((1, 1, 0, 5), "eps: wanted a finite number > 0, got 0"),
        ((1, 1, -0.5, 5), "eps: wanted a finite number > 0, got -0.5"),
        ((1, 1, math.nan, 5), "eps: wanted a finite number > 0, got nan"),
        ((1, 1, math.inf, 5), "eps: wanted a finite number > 0, got inf"),
        ((1, 1, 1, 0), "N: wanted an integer >= 1, got 0"),
    ],
)
def test_bad_numbers_are_refused_in_one_line(arguments, message):
    for cover in (log_cover_vector, zhang_bound, log_cover_lower):
        with pytest.raises(InputError) as caught:
            cover(*arguments)
        assert str(caught.value) == message


def test_bad_options_are_refused():
    with pytest.raises(InputError, match="p: wanted 2 <= p"):
        log_cover_vector(1, 1, 1, 5, 1.5)
    with pytest.raises(InputError, match="p: wanted 2 <= p"):
        zhang_bound(1, 1, 1, 5, math.inf)
    with pytest.raises(InputError, match="internal: wanted p = 2"):
        log_cover_vector(1, 1, 0.1, 5, 3, internal=True)
    with pytest.raises(InputError, match="rhos: wanted numbers > 1"):
        log_cover_matrix_21(1, 1, 0.1, 5, 2, rhos=(1.0,))
    with pytest.raises(InputError, match="k: wanted an integer >= 1"):
        log_cover_matrix_frobenius(1, 1, 0.1, 5, 0)
