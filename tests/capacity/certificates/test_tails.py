"""Hold-out, Occam and conditioning by tail inversion: numbers of the text, simulation, errors."""

import math

import numpy as np
import pytest

from capax.capacity.certificates.occam import occam_bound
from capax.capacity.certificates.tails import (
    binomial_upper,
    holdout_bound,
    occam_tail_bound,
    price_of_conditioning,
)
from capax.errors import InputError


@pytest.mark.parametrize("m, percent", [(60, 33), (100, 21), (300, 7.6)])
def test_thirty_bits_certify_an_and_of_three_from_sixty_examples(m, percent):
    bound = occam_tail_bound(0, m, 30, 0.05)
    assert 100 * bound.value == pytest.approx(percent, rel=0.03)
    assert bound.value == pytest.approx(1 - (0.05 * 2**-30) ** (1 / m))
    assert bound.value < occam_bound(30, m, 0.05).value
    assert bound.delta == 0.05 and bound.predictor == "the described predictor"


@pytest.mark.parametrize("bits", [10, 1000, 30_000, 10**9])
def test_occam_is_never_vacuous_before_the_floats_end(bits):
    values = [occam_tail_bound(7, m, bits, 0.05).value for m in (97, 10**4, 10**8)]
    assert values == sorted(values, reverse=True) and values[-1] <= 1
    nats = bits * math.log(2) + math.log(20)
    if nats / 90 < 30:
        assert values[0] < 1


def test_holdout_needs_no_union_bound_for_one_look_and_pays_for_many():
    one, many = holdout_bound(3, 200, 0.05), holdout_bound(3, 200, 0.05, looks=10)
    assert one.value == binomial_upper(3, 200, math.log(0.05))
    assert many.value == pytest.approx(binomial_upper(3, 200, math.log(0.005)))
    assert holdout_bound(0, 59, 0.05).value < 0.05 < holdout_bound(0, 58, 0.05).value
    assert holdout_bound(200, 200, 0.05).value == 1.0


def test_the_target_is_reached_at_m_needed_and_not_before():
    assert holdout_bound(0, 10, 0.05, target=0.05).m_needed == 59
    bound = occam_tail_bound(2, 100, 30, 0.05, target=0.1)
    again = occam_tail_bound(math.ceil(0.02 * bound.m_needed), bound.m_needed, 30, 0.05)
    assert again.value <= 0.1
    assert occam_tail_bound(20, 100, 30, 0.05, target=0.1).m_needed is None


def test_coverage_of_the_holdout_bound_is_exact():
    """P[bound < p] summed over all k, for several p: at most delta, and near it."""
    n, delta = 41, 0.1
    values = np.array([holdout_bound(k, n, delta).value for k in range(n + 1)])
    misses = []
    for p in np.linspace(0.02, 0.98, 97):
        weights = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        misses.append(float(np.dot(weights, values < p)))
    assert max(misses) <= delta
    assert max(misses) > 0.09
    halved = float(np.dot([math.comb(n, k) / 2**n for k in range(n + 1)], values / 2 < 0.5))
    assert halved > 0.9  # half the bound does not hold


def test_price_of_conditioning_covers_the_true_acceptance():
    """Draw until accepted, many times: alpha_L > alpha in at most a share delta of them."""
    rng, alpha, delta = np.random.default_rng(3), 0.3, 0.1
    tries = rng.geometric(alpha, size=4000)
    prices = {n: price_of_conditioning(1, int(n), delta).alpha for n in set(tries.tolist())}
    wrong = np.mean([prices[int(n)] > alpha for n in tries])
    assert wrong <= delta
    assert price_of_conditioning(1, 1, delta).alpha == pytest.approx(delta)
    assert price_of_conditioning(900, 1000, delta).alpha > 0.88


def test_conditioning_is_paid_in_nats():
    price = price_of_conditioning(1, 4, 0.01)
    free, paid = (occam_tail_bound(0, 60, 30, 0.04, cost=c).value for c in (0.0, price.cost))
    assert paid == pytest.approx(1 - (0.04 * price.alpha * 2**-30) ** (1 / 60))
    assert free < paid < 1


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: holdout_bound(3, 2, 0.05), "k: wanted errors between 0 and n = 2"),
        (lambda: holdout_bound(0, 2, 1.0), "delta"),
        (lambda: holdout_bound(0, 2, 0.05, looks=0), "looks"),
        (lambda: occam_tail_bound(0, 2, -1, 0.05), "bits"),
        (lambda: occam_tail_bound(0, 2, 3, 0.05, cost=math.nan), "cost"),
        (lambda: price_of_conditioning(0, 5, 0.05), "accepted"),
        (lambda: price_of_conditioning(6, 5, 0.05), "tries"),
    ],
)
def test_errors_are_clear(call, message):
    with pytest.raises(InputError, match=message):
        call()
