"""Covers of function classes: definitions recomputed, orders between bounds, labels that hold."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.complexity.vc import growth_function
from capax.capacity.covers.covering_classes import (
    cover_of_parameters,
    cover_of_sampled_class,
    cover_on_sample,
    cover_worst_case,
    evaluate,
    function_space,
)
from capax.capacity.covers.covering_sets import covering_number
from capax.capacity.covers.packing_sets import packing_number
from capax.capacity.covers.volume import log_cover_parametric
from capax.capacity.linear.linear_classes import (
    log_cover_matrix_21,
    log_cover_matrix_frobenius,
    log_cover_vector,
    zhang_bound,
)
from capax.errors import InputError

seeds = st.integers(0, 2**32 - 1)


def linear(w, z):
    return np.atleast_1d(w @ z)


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_the_metric_is_the_definition(norm):
    values = np.random.default_rng(0).standard_normal((5, 3, 2))
    D = function_space(values, norm).distances
    for f, g in itertools.product(range(5), repeat=2):
        gaps = [np.linalg.norm(values[f, i] - values[g, i], norm) for i in range(3)]
        assert D[f, g] == pytest.approx(max(gaps), abs=1e-12)


def test_one_point_per_function_not_per_value():
    """f = (0, 1) and g = (1, 0) have the same set of values, yet need two centres below 1."""
    values = [[0.0, 1.0], [1.0, 0.0]]
    assert cover_on_sample(values, 0.9).exact == 2
    assert cover_on_sample(values, 1.0).exact == 1


@settings(max_examples=60)
@given(seeds, st.integers(2, 10), st.integers(1, 4), st.integers(1, 3), st.floats(0.05, 1.5))
def test_linear_bounds_hold_for_random_classes(seed, members, N, d, eps):
    """On random classes {w_1..w_n} in a ball: packing <= N_inf <= ... every upper bound.

    The packing at 2 eps is a lower bound on external covers of the whole ball, so each upper
    bound on the ball must be above it.
    """
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((N, d)), rng.standard_normal((members, d))
    a, b = float(np.linalg.norm(W, axis=1).max()), float(np.linalg.norm(X, axis=1).max())
    space = function_space(W @ X.T)
    log_packing = math.log(packing_number(space, 2 * eps).exact)
    upper_bounds = (
        log_cover_vector(a, b, eps, N),
        log_cover_vector(a, b, eps, N, internal=True),
        log_cover_matrix_21(a, b, eps, N, 1),
        log_cover_matrix_frobenius(a, b, eps, N, 1),
        log_cover_parametric(d, a, b, eps),
        zhang_bound(a, b, eps, N),
        math.log(covering_number(space, eps).exact),
    )
    assert min(upper_bounds) >= log_packing - 1e-12


@settings(max_examples=40)
@given(seeds, st.integers(2, 9), st.floats(0.1, 2.0))
def test_matrix_bounds_hold_for_random_classes(seed, members, eps):
    rng = np.random.default_rng(seed)
    k, d, N = 2, 3, 4
    X, W = rng.standard_normal((N, d)), rng.standard_normal((members, k, d))
    b = float(np.linalg.norm(X, axis=1).max())
    B_21 = float(np.linalg.norm(W, axis=2).sum(axis=1).max())
    B_F = float(np.linalg.norm(W, axis=(1, 2)).max())
    values = np.einsum("fkd,nd->fnk", W, X)
    log_packing = math.log(packing_number(function_space(values), 2 * eps).lower)
    assert log_packing <= log_cover_matrix_21(B_21, b, eps, N, k)
    assert log_packing <= log_cover_matrix_frobenius(B_F, b, eps, N, k)
    assert log_packing <= log_cover_parametric(k * d, B_F, b, eps)


@settings(max_examples=12)
@given(seeds, st.integers(1, 3))
def test_worst_case_equals_the_maximum_over_samples_and_grows_with_m(seed, m):
    values = np.random.default_rng(seed).integers(0, 4, size=(6, 4)).astype(float)
    worst = cover_worst_case(values, 1.0, m)
    samples = itertools.product(range(4), repeat=m)  # with repetitions
    assert worst.exact == max(cover_on_sample(values[:, list(s)], 1.0).exact for s in samples)
    assert worst.exact <= cover_worst_case(values, 1.0, m + 1).exact
    assert cover_on_sample(values[:, list(worst.sample)], 1.0).exact == worst.exact


def test_binary_classes_have_the_growth_function_as_covering_number():
    values = np.random.default_rng(4).integers(0, 2, size=(9, 5))
    for m in (1, 2, 3):
        assert cover_worst_case(values, 0.5, m).exact == growth_function(values, m)
        assert cover_worst_case(values, 1.0, m).exact == 1


def test_large_domains_give_an_interval_with_both_ends_attained_or_proved():
    values = np.random.default_rng(5).integers(0, 2, size=(6, 24)).astype(float)
    worst = cover_worst_case(values, 0.5, 4)
    assert worst.kind in ("interval", "exact")
    on_sample = cover_on_sample(values[:, list(worst.sample)], 0.5).exact
    assert math.log(on_sample) == pytest.approx(worst.log_lower)
    assert worst.log_upper <= math.log(6) + 1e-12
    assert worst.notes == ("samples found greedily; upper end from the whole domain",)


def test_parameters_and_functions_have_the_same_covering_number():
    rng = np.random.default_rng(6)
    weights, sample = rng.standard_normal((8, 3)), rng.standard_normal((5, 3))
    by_parameters = cover_of_parameters(linear, list(weights), list(sample), 0.8)
    by_values = cover_on_sample(weights @ sample.T, 0.8)
    assert by_parameters.exact == by_values.exact
    centres = weights[list(by_parameters.centres)]
    gaps = np.abs((weights[:, None] - centres[None]) @ sample.T).max(axis=-1)
    assert gaps.min(axis=1).max() <= 0.8 + 1e-9


def test_sampled_classes_are_labelled_by_what_is_known():
    rng = np.random.default_rng(8)
    weights, sample = rng.standard_normal((30, 2)), rng.standard_normal((5, 2))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    lower = cover_of_sampled_class(linear, list(weights), list(sample), 0.3)
    assert lower.kind == "lower bound"
    assert lower.exact is None
    b = float(np.linalg.norm(sample, axis=1).max())
    both = cover_of_sampled_class(linear, list(weights), list(sample), 0.3, lipschitz=b, radius=1.0)
    assert both.kind == "interval"
    assert both.log_lower <= both.log_upper == log_cover_parametric(2, 1.0, b, 0.3)
    one = cover_of_sampled_class(linear, [weights[0]], list(sample), 0.3, lipschitz=b, radius=1.0)
    assert one.kind == "upper bound"


def test_time_limit_zero_gives_an_interval():
    values = np.random.default_rng(9).random((60, 3))
    cover = cover_on_sample(values, 0.3, time_limit=0)
    exact = cover_on_sample(values, 0.3)
    assert cover.log_lower <= exact.log_lower == exact.log_upper <= cover.log_upper


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: cover_on_sample([[1.0, math.nan]], 1), "values: wanted finite numbers only"),
        (lambda: cover_on_sample(np.zeros((0, 3)), 1), "values: wanted at least one entry"),
        (lambda: cover_on_sample([1.0, 2.0], 1), "values: wanted values[function, sample]"),
        (lambda: cover_on_sample([[1.0]], 0), "eps: wanted a finite number > 0, got 0"),
        (lambda: cover_on_sample([[1.0]], 1, norm=3), "norm: wanted 1, 2 or inf, got 3"),
        (lambda: cover_worst_case([[1.0]], 1, 0), "m: wanted an integer >= 1, got 0"),
        (lambda: evaluate(linear, [], [1.0]), "parameters: wanted at least one, got 0"),
        (lambda: evaluate(linear, [1.0], []), "sample: wanted at least one point, got 0"),
        (lambda: cover_of_sampled_class(linear, [[1.0]], [[1.0]], -1), "eps: wanted a finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)
