"""Sizes of covers, levels, tails and intervals against exact counting: a little less would fail.

"The bound is above the truth on random instances" does not see a bound that is slightly too small.
Here the number itself is computed again by enumeration, in integers or in fractions.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from capax.capacity.certificates.linear_readout import linear_complexity, linear_readout_bound
from capax.capacity.complexity.chaining import dudley_quadratic
from capax.capacity.complexity.rademacher import rademacher_exact, rademacher_monte_carlo
from capax.capacity.covers.metrics import _check_size, check_triangle
from capax.capacity.linear.cover_pieces import Piece, closed_form
from capax.capacity.linear.linear_classes import log_cover_matrix_frobenius, num_levels
from capax.capacity.margins.margin_bounds import ramp_loss
from capax.capacity.network.head_bounds import scalar_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.a_posteriori import GRID
from capax.errors import InfeasibleError, InputError


def integer_points(N, K):
    """#{c in Z^N : |c|_1 <= K}, one coordinate after the other."""
    ways = [1] + [0] * K
    for _ in range(N):
        ways = [ways[s] + 2 * sum(ways[:s]) for s in range(K + 1)]
    return sum(ways)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("ratio", [Fraction(5, 4), Fraction(3, 2), Fraction(2)])
def test_the_frobenius_cover_counts_its_update_sequences(k, ratio):
    """Steps of size eps/sqrt(k): the largest number of them below k (b B_F/eps)^2, exactly."""
    steps = k * ratio**2
    K = math.ceil(steps) - 1
    for N in (1, 3):
        exact = math.log(integer_points(k * N, K))
        bound = log_cover_matrix_frobenius(float(ratio), 2.0, 2.0, N, k)
        assert exact <= bound <= exact + math.log(min(k * N, K) + 1) / 2 + 2


@pytest.mark.parametrize("rho", [Fraction(2), Fraction(3, 2), Fraction(11, 10)])
def test_levels_of_a_row_norm_are_counted(rho):
    """Rows of norm in (u, B], u = B/(rho M): the powers u rho^j they are rounded to."""
    for M in (Fraction(5, 4), Fraction(3), rho**4, Fraction(17), Fraction(1000, 7)):
        u, levels = 1 / (rho * M), 0
        while u * rho**levels < 1:
            levels += 1
        found = num_levels(math.log(M) / 2, float(rho))
        assert levels <= found <= levels + 1
        tie = math.log(M) / math.log(rho)
        assert found == levels or abs(tie - round(tie)) < 1e-6


def test_a_ratio_just_above_a_power_needs_one_more_level():
    """M = (2^20 + 2^-32)^2 > 2^40, so L = 1 + 41; its float64 logarithm is that of 2^40."""
    ratio = math.nextafter(2.0**20, math.inf)
    assert 2 * math.log(ratio) / math.log(2) == 40.0
    assert num_levels(math.log(ratio), 2.0) == 42


def test_scalar_head_by_hand():
    """c = 50 and L_sigma = 3: every factor of the three pieces is seen."""
    sample, inputs = Sample(m=17, T=5), Inputs(B_X=2.0, B_z=1.3, r_X=1.5)
    c, slope, qk, v2, v21, k = 50.0, 3.0, 4.0, 0.7, 0.9, 3
    scores = (c * slope * v2 * 1.5 * qk * 1.3 * 1.5) ** 2 * math.log(2 * 17 * 6 + 1)
    values = 2 * (c * slope * v21 * 2.0) ** 2 * math.log(128 * k * 17 + 1)
    read_out = (c * slope * v2 * 2.0) ** 2 * math.log(2 * 17 + 1)
    head = scalar_head(qk, v2, v21, c, k=k, L_sigma=slope, inputs=inputs)
    total = sum(C ** (1 / 3) for C in (scores, values, read_out)) ** 3
    assert math.exp(closed_form(head.build(sample))) == pytest.approx(total, rel=1e-12)


def test_linear_read_out_by_hand():
    """ramp + 2 a b/(gamma sqrt(m)) + 3 sqrt(ln(2/delta)/2m): every factor, at a margin of 1."""
    m, delta, nats = 400, 0.02, 1.5
    signs = np.where(np.arange(m) % 4 == 0, -1.0, 1.0)
    Z, w = np.stack([signs * 3.0, np.zeros(m)], axis=1), np.array([2.0, 0.0])
    bound = linear_readout_bound(Z, w, signs, delta, cost=nats)
    ratio = bound.norms["a"] / bound.norms["margin"]  # on its grid: (1 + g)^j, cost ln 1/w(j)
    j = round(math.log(ratio) / math.log1p(GRID))
    weight = 1 / 2 if j == 0 else 1 / (2 * (abs(j) + 1) * (abs(j) + 2))
    complexity = 2 * ratio * math.sqrt((Z**2).sum()) / m
    confidence = 3 * math.sqrt((math.log(2 / delta / weight) + nats) / (2 * m))
    loss = ramp_loss(signs * (Z @ w), bound.norms["margin"])
    assert loss == 0 and complexity > 0.1
    assert bound.value == pytest.approx(loss + complexity + confidence, rel=1e-9)
    assert bound.value >= loss + complexity + confidence


def test_the_bound_of_a_linear_read_out_is_not_below_the_sum_of_its_terms():
    rng = np.random.default_rng(2)
    for m in range(20, 60):
        Z, w = rng.normal(size=(m, 3)), rng.normal(size=3)
        signs = np.where(Z @ w + rng.normal(size=m) > 0, 1.0, -1.0)
        bound = linear_readout_bound(Z, w, signs, 0.05)
        exact = sum(Fraction(term.value) for term in bound.terms)
        assert exact <= Fraction(bound.value) <= exact * Fraction(1 + 1e-12)


def test_the_rademacher_complexity_of_one_direction_is_attained():
    """All z_i = z: E|sum s_i| = m C(m-1, (m-1)/2)/2^(m-1), below a b/sqrt(m) by 2/pi at most."""
    m = 9
    exact = 1.7 * 2.0 * m * math.comb(m - 1, (m - 1) // 2) / 2 ** (m - 1) / m
    table = np.outer([1.7 * 2.0, -1.7 * 2.0], np.ones(m))
    assert rademacher_exact(table).value == pytest.approx(exact)
    single = linear_complexity(1.7, np.full((1, 1), 2.0))
    assert single == pytest.approx(1.7 * 2.0) and single >= 1.7 * 2.0  # m = 1: equality
    assert exact <= linear_complexity(1.7, np.full((m, 1), 2.0)) <= exact * math.sqrt(math.pi / 2)


def test_the_monte_carlo_interval_is_mcdiarmids():
    values = np.array([[1.0, -2.0, 0.0], [0.0, 4.0, 0.5], [-3.0, 1.0, 0.25]])
    found = rademacher_monte_carlo(values, 50, delta=0.03, key=1)
    half = np.array([2.0, 3.0, 0.25])
    error = math.sqrt(2 * math.log(2 / 0.03) * float((half**2).sum()) / 50) / 3
    assert found.upper - found.value == pytest.approx(error, rel=1e-12)
    assert found.value - max(found.lower, 0.0) == pytest.approx(min(error, found.value), rel=1e-12)


def test_the_monte_carlo_interval_covers_and_a_third_of_it_does_not():
    """The widest case, F = {z, -z}: |sum of two signs| is 0 or 2. 400 intervals at delta = 0.1."""
    values, delta, draws, sets = np.array([[1.0, 1.0], [-1.0, -1.0]]), 0.1, 30, 400
    found = [rademacher_monte_carlo(values, draws, delta=delta, key=key) for key in range(sets)]
    truth = rademacher_exact(values).value
    missed = sum(not f.lower <= truth <= f.upper for f in found)
    third = sum(abs(truth - f.value) > (f.upper - f.value) / 3 for f in found)
    assert missed <= binom.isf(1e-6, sets, delta)
    assert third > binom.isf(1e-6, sets, delta)


def test_rounding_breaks_no_triangle_inequality():
    """Points on a line: the long side exceeds the sum of the short ones by one last place."""
    long = math.nextafter(0.1 + 0.2, 1.0)
    D = np.array([[0.0, 0.1, long], [0.1, 0.0, 0.2], [long, 0.2, 0.0]])
    check_triangle(D)
    with pytest.raises(InputError, match="triangle inequality"):
        check_triangle(np.where(D > 0.25, 0.301, D))


def test_scores_need_no_cover_from_two_over_lambda_on():
    """At lambda eps = 2 the weights cannot move further; just below, (2/lambda) atanh."""
    piece = Piece("QK", 0.0, 5, softmax_slope=2.0)
    assert piece.log_covered_at(0.0) == math.inf
    eps = 0.99
    assert piece.log_covered_at(math.log(eps)) == pytest.approx(math.log(math.atanh(eps)))
    assert replace(piece, softmax_slope=None).log_covered_at(0.0) == 0.0


def test_textbook_chaining_in_closed_form():
    """12 s (1 + ln(A/6s)), s = sqrt(C/m); the trivial A from s = A/6 on."""
    s = math.sqrt(2 / 100)
    assert dudley_quadratic(2.0, 10.0, 100) == pytest.approx(12 * s * (1 + math.log(10 / (6 * s))))
    assert dudley_quadratic(2.0, 6 * s, 100) == 6 * s and dudley_quadratic(0.0, 1.0, 9) == 0


def test_too_many_points_are_told_what_they_would_take():
    with pytest.raises(InfeasibleError, match="got 12001 points, which need 2 GB"):
        _check_size(12_001)
