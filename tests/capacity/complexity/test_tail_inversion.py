"""Inverted tails: against scipy and 60 digits, on the safe side, never underflown."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from capax.capacity.complexity.tail_inversion import (
    binomial_lower,
    binomial_upper,
    kl,
    kl_inverse,
    log_tail_at_most,
)
from capax.errors import InputError

counts = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
log_deltas = st.floats(-60, math.log(0.5))


def log_tail(k, n, p):
    """ln P[Bin(n, p) <= k] in 60 digits."""
    with mpmath.workdps(60):
        p = mpmath.mpf(p)
        terms = (mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))
        return mpmath.log(mpmath.fsum(terms))


@settings(max_examples=60)
@given(counts, log_deltas)
def test_both_ends_are_beta_quantiles_on_the_safe_side(pair, log_delta):
    k, n = pair
    upper, lower = binomial_upper(k, n, log_delta), binomial_lower(k, n, log_delta)
    exact_upper = 1.0 if k == n else beta.isf(math.exp(log_delta), k + 1, n - k)
    exact_lower = 0.0 if k == 0 else beta.ppf(math.exp(log_delta), k, n - k + 1)
    assert exact_upper * (1 - 1e-12) <= upper <= exact_upper * (1 + 1e-9) + 1e-12
    assert exact_lower * (1 - 1e-8) - 1e-15 <= lower <= exact_lower * (1 + 1e-11)
    assert lower <= k / n <= upper


@pytest.mark.parametrize(
    "k, n, log_delta",
    [(0, 60, -24.0), (1, 7, -3.0), (5, 60, -40.0), (5, 60, -900.0), (7, 97, -3000.0),
     (96, 97, -3.0), (63, 64, -50.0), (65, 131, -800.0), (3, 5, -1e5), (200, 401, -0.7)],
)  # fmt: skip
def test_the_inverse_is_proved_and_tight_in_60_digits(k, n, log_delta):
    p = binomial_upper(k, n, log_delta)
    if p == 1.0:  # 1 - p is below the smallest step of a float: 1 is the next number above
        with mpmath.workdps(60):
            below = 1 - mpmath.mpf(2) ** -53
        assert log_tail(k, n, below) > log_delta
        return
    assert log_tail(k, n, p) <= log_delta  # proved
    assert log_tail(k, n, p * (1 - 1e-10)) > log_delta  # and not much larger than needed


@given(counts, st.floats(1e-6, 30))
def test_the_tail_is_never_underestimated(pair, beyond):
    k, n = pair
    if k == n or n > 400:
        return
    x = beyond if k == 0 else math.log(k / (n - k)) + beyond
    with mpmath.workdps(60):
        exact = log_tail(k, n, 1 / (1 + mpmath.exp(-mpmath.mpf(x))))
        assert exact <= log_tail_at_most(k, n, x) <= exact + 1e-9 * (1 + abs(exact))


def test_no_errors_has_a_closed_form_also_for_thousands_of_bits():
    for n, log_delta in [(60, -24.0), (1000, -7000.0), (10**7, -2e6), (3, -1e-3)]:
        exact = -math.expm1(log_delta / n)
        got = binomial_upper(0, n, log_delta)
        assert exact <= got <= exact * (1 + 1e-13)


def test_a_large_sample_takes_the_larger_chernoff_value():
    small, large = 10**9, 10**9 + 10
    exact, chernoff = (binomial_upper(n // 10, n, -30.0) for n in (small, large))
    assert 0.1 < exact < chernoff < exact * 1.001
    assert 0 < binomial_upper(0, 10**300, -30.0) < 1e-298


@given(st.floats(0, 1), st.floats(0, 1))
def test_kl_is_its_definition(q, p):
    got = kl(q, p)
    if (p == 0 and q > 0) or (p == 1 and q < 1):
        assert got == math.inf
        return
    with mpmath.workdps(400):
        a, b = mpmath.mpf(q), mpmath.mpf(p)
        exact = (a * mpmath.log(a / b) if a else 0) + (
            (1 - a) * mpmath.log((1 - a) / (1 - b)) if a != 1 else 0
        )
    assert got == pytest.approx(float(exact), rel=1e-9, abs=1e-13)


@given(st.floats(0, 1), st.floats(1e-9, 100))
def test_kl_inverse_is_proved_and_tight(q, c):
    p = kl_inverse(q, c)
    assert q <= p <= 1
    assert kl(q, max(q, p * (1 - 1e-7))) <= c + 1e-12  # a slightly smaller rate is not excluded
    if p == 1:
        return
    with mpmath.workdps(400):
        a, b = mpmath.mpf(q), mpmath.mpf(p)
        exact = (a * mpmath.log(a / b) if a else 0) + (1 - a) * mpmath.log((1 - a) / (1 - b))
        assert exact >= c  # every larger rate is excluded


def test_chernoff_is_weaker_than_the_tail():
    for k, n in [(0, 50), (7, 97), (300, 1000)]:
        assert binomial_upper(k, n, -3.0) <= kl_inverse(k / n, 3.0 / n) * (1 + 1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: binomial_upper(3, 2, -1.0), "k: wanted errors between 0 and n = 2, got 3"),
        (lambda: binomial_upper(-1, 2, -1.0), "k: wanted"),
        (lambda: binomial_lower(0, 0, -1.0), "n: wanted at least one example"),
        (lambda: binomial_upper(0, 2, 0.0), "log_delta"),
        (lambda: binomial_upper(0, 2, -math.inf), "log_delta"),
        (lambda: binomial_upper(0, 2, math.nan), "log_delta"),
        (lambda: kl(1.5, 0.5), "q: wanted"),
        (lambda: kl_inverse(0.5, -1.0), "c: wanted"),
        (lambda: kl_inverse(math.nan, 1.0), "q: wanted"),
    ],
)
def test_errors_are_clear(call, message):
    with pytest.raises(InputError, match=message):
        call()
