"""Lemma 2.2 and its companions: recomputed by hand, monotone, true in simulation, solved for m."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.complexity.chaining import rademacher_from_cover
from capax.capacity.complexity.generalization import (
    agnostic_margin_bound,
    lemma_2_2,
    ramp_bound,
    separated_bound,
    zero_one_bound,
)
from capax.capacity.complexity.samples_needed import samples_needed
from capax.capacity.complexity.vc import log_sauer
from capax.capacity.linear.linear_classes import log_cover_vector, quadratic_constant_vector
from capax.errors import InputError


def test_lemma_2_2_is_its_formula():
    bound = lemma_2_2(7.0, 10_000, 0.05, lipschitz=2.0, empirical_loss=0.1)
    R = rademacher_from_cover(28.0, 0.5, 10_000, external=True)
    assert bound.value == pytest.approx(0.1 + 2 * R + 3 * math.sqrt(math.log(40) / 20_000))
    assert sum(term.value for term in bound.terms) == pytest.approx(bound.value)
    assert "Lemma 2.2" in bound.explain()


@settings(max_examples=15)
@given(
    C=st.floats(1e-3, 1e4),
    gamma=st.floats(0.01, 10),
    m=st.integers(10, 10**8),
    t=st.floats(1, 10),
)
def test_bounds_move_in_the_right_direction(C, gamma, m, t):
    value = ramp_bound(C, gamma, m, 0.05).value
    slack = 1 + 1e-12
    assert value <= ramp_bound(C * t, gamma, m, 0.05).value * slack
    assert value <= ramp_bound(C, gamma / t, m, 0.05).value * slack
    assert value <= ramp_bound(C, gamma, m, 0.05 / t).value * slack
    assert ramp_bound(C, gamma, math.ceil(m * t), 0.05).value <= value * slack
    assert ramp_bound(C, gamma, m, 0.05, external=False).value <= value * slack
    fast = separated_bound(C, m, 0.05).value
    assert fast <= separated_bound(C * t, m, 0.05).value * slack
    assert separated_bound(C, math.ceil(m * t), 0.05).value <= fast * slack


def test_the_realizable_bound_is_its_formula():
    bound = separated_bound(10 * math.log(2), 100, 0.5)
    assert bound.value == pytest.approx(2 / 100 * (10 + 2))
    assert bound.log_cover == pytest.approx(10 * math.log(2))
    assert not bound.vacuous
    assert separated_bound(10**9, 100, 0.5).vacuous


def test_the_agnostic_bound_is_its_formula():
    bound = agnostic_margin_bound(3.0, 1000, 0.1, margin_errors=0.2)
    assert bound.delta == 0.1
    assert bound.value == pytest.approx(0.2 + math.sqrt(8 / 1000 * (3 + math.log(20))))


def test_zero_one_bound_uses_the_growth_function():
    bound = zero_one_bound(lambda m: log_sauer(m, 3), 5000, 0.05, empirical_error=0.1)
    R = 0.5 * math.sqrt(2 * log_sauer(5000, 3) / 5000)
    assert bound.value == pytest.approx(0.1 + 2 * R + 3 * math.sqrt(math.log(40) / 10_000))
    assert bound.log_cover == log_sauer(5000, 3)


@pytest.mark.parametrize(
    "bound_at",
    [
        lambda m, **k: lemma_2_2(lambda n: quadratic_constant_vector(1, 1, n), m, 0.05, **k),
        lambda m, **k: ramp_bound(2.0, 0.5, m, 0.05, **k),
        lambda m, **k: zero_one_bound(lambda n: log_sauer(n, 3), m, 0.05, **k),
        lambda m, **k: separated_bound(lambda n: log_cover_vector(1, 1, 0.5, 2 * n), m, 0.05, **k),
    ],
)
def test_samples_needed_is_the_first_m_that_reaches_the_target(bound_at):
    needed = bound_at(100, target=0.3).m_needed
    assert bound_at(needed).value <= 0.3 < bound_at(needed - 1).value


@pytest.mark.parametrize("log_guess", [-3.0, 0.0, 9.0, 14.914, 1e6])
def test_a_guess_changes_the_time_and_not_the_answer(log_guess):
    asked = []
    needed = samples_needed(lambda m: asked.append(m) or 3e5 / m, 0.1, log_guess=log_guess)
    assert needed == 3_000_000 and len(asked) < (12 if log_guess == 14.914 else 150)
    assert samples_needed(lambda m: 1 / m, 0.9, log_guess=log_guess) == 2
    assert samples_needed(lambda _: 1.0, 0.1, log_guess=log_guess) is None


def test_the_zero_one_bound_holds_in_simulation():
    """Thresholds on [0, 1], true error of the empirical minimiser: never above its bound.

    50 samples at delta = 0.01: under 40 % chance of any failure even if the bound were tight.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = rng.random(200)
        y = (x >= 0.37) ^ (rng.random(200) < 0.1)
        cuts = np.linspace(0, 1, 101)
        errors = [np.mean((x >= c) != y) for c in cuts]
        best = int(np.argmin(errors))
        true = 0.1 + 0.8 * abs(cuts[best] - 0.37)
        bound = zero_one_bound(math.log(101), 200, 0.01, empirical_error=float(errors[best]))
        assert true <= bound.value


def test_strictness_matters_for_closed_covers():
    """F = {0, gamma}^X, y = 1: one centre, gamma/2, covers F; f = gamma 1_S has margin exactly
    gamma on the sample and error near 1. So the assumption must say 'strictly'."""
    assert "strictly" in separated_bound(0.0, 100, 0.05).assumptions[0].text


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: lemma_2_2(1.0, 10, 0.0), "delta: wanted a number strictly between 0 and 1"),
        (lambda: lemma_2_2(1.0, 10, 1.0), "delta: wanted a number strictly between 0 and 1"),
        (lambda: lemma_2_2(1.0, 10, math.nan), "delta: wanted a number strictly between"),
        (lambda: separated_bound(1.0, 10, 1.5), "delta: wanted a number strictly between"),
        (lambda: agnostic_margin_bound(1.0, 10, -0.1), "delta: wanted a number strictly"),
        (lambda: lemma_2_2(1.0, 0, 0.1), "m: wanted"),
        (lambda: lemma_2_2(-1.0, 10, 0.1), "the size of the class: wanted a number >= 0"),
        (lambda: lemma_2_2(1.0, 10, 0.1, empirical_loss=2), "empirical loss: wanted a number in"),
        (lambda: lemma_2_2(1.0, 10, 0.1, lipschitz=0), "lipschitz: wanted a finite number > 0"),
        (lambda: ramp_bound(1.0, 0.0, 10, 0.1), "gamma: wanted a finite number > 0, got 0.0"),
        (lambda: agnostic_margin_bound(-1.0, 10, 0.1), "log_cover: wanted a number >= 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)
