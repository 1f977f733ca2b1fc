"""Margin bounds, norms measured after training, Occam: the published numbers and the directions."""

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.certificates.occam import (
    IntegerTableModel,
    conjunction_model,
    elias_gamma_bits,
    integer_bits,
    occam_bound,
)
from capax.capacity.complexity.samples_needed import samples_needed
from capax.capacity.margins.margin_bounds import (
    _loss_assumption,
    loss_complexity,
    margin_bound,
    ramp_loss,
    realizable_bound,
)
from capax.capacity.network.head_bounds import linear_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.a_posteriori import grid_index, index_weight, round_up
from one_line import one_line

TWO_HOT = Inputs(B_X=math.sqrt(2), B_z=1.0, r_X=math.sqrt(1.5))

# T, margin, ||W_QK||_F, m with all pairs, m with distinct pairs, Occam bits and m (two codes)
AND_3 = [
    (100, 0.833, 18.27, 1.99e6, 6.4e4, (79, 578), (55, 412)),
    (10**4, 0.885, 28.49, 4.86e6, 9.1e5, (101, 731), (75, 550)),
    (10**6, 0.906, 38.00, 9.51e6, 3.2e6, (127, 911), (95, 689)),
]


@pytest.mark.parametrize(("T", "margin", "norm", "m_all", "m_distinct", "wide", "minimal"), AND_3)
def test_certificates_for_the_and_of_three_bits(T, margin, norm, m_all, m_distinct, wide, minimal):
    head = linear_head(norm, 2.0, B_phi=1.0, inputs=TWO_HOT)
    for alphabet, expected in ((None, m_all), (2, m_distinct)):
        sample = Sample(1000, T, alphabet=alphabet)
        bound = realizable_bound(head, sample, margin, 0.05, target=0.1)
        assert bound.vacuous
        assert bound.m_needed == pytest.approx(expected, rel=0.03)
        at = realizable_bound(head, sample.of_size(bound.m_needed), margin, 0.05)
        before = realizable_bound(head, sample.of_size(bound.m_needed - 1), margin, 0.05)
        assert at.value <= 0.1 < before.value
    for code, (bits, m) in ((False, wide), (True, minimal)):
        model = conjunction_model(T, (0, 1, 2), minimal=code)
        assert model.bits == bits
        assert occam_bound(bits, 100, 0.05, target=0.1).m_needed == m


def test_rademacher_route_is_vacuous_at_a_million_samples():
    head = linear_head(31.0, 2.0, B_phi=1.0, inputs=TWO_HOT)
    bound = margin_bound(head, Sample(10**6, 1000), 0.86, 0.05)
    assert bound.value == pytest.approx(1.0, abs=0.01)
    assert bound.vacuous
    assert "vacuous" in bound.explain()


def test_the_margin_bound_is_the_sum_of_its_three_terms():
    """loss + 2 R + 3 sqrt((ln(2/delta) + cost) / (2 m)), each by hand."""
    head, sample, margin = linear_head(1.3, 0.7, d=13), Sample(10**7, 50), 0.5
    R = loss_complexity(head, sample, 1 / margin)
    found = margin_bound(head, sample, margin, 0.02, training_loss=0.1, cost=1.5)
    confidence = 3 * math.sqrt((math.log(2 / 0.02) + 1.5) / (2 * 10**7))
    whole = 0.1 + 2 * R + confidence
    assert whole <= found.value <= whole * (1 + 1e-8)  # outward
    values = {term.name: math.exp(term.log_value) for term in found.terms}
    assert values["confidence"] == pytest.approx(confidence, rel=1e-12)


norms = st.floats(0.1, 50.0)


@settings(max_examples=12)
@given(norms, norms, st.floats(0.05, 2.0), st.integers(3, 10**7), st.integers(2, 10**9))
def test_margin_bounds_fall_with_m_and_margin_and_grow_with_norms_and_T(q, v, gamma, m, T):
    head, sample = linear_head(q, v, d=13), Sample(m, T)
    for bound in (margin_bound, realizable_bound):
        value = bound(head, sample, gamma, 0.05).log_value
        assert bound(head, sample.of_size(2 * m), gamma, 0.05).log_value <= value + 1e-9
        assert bound(head, sample, gamma * 2, 0.05).log_value <= value + 1e-9
        assert bound(linear_head(q * 2, v, d=13), sample, gamma, 0.05).log_value >= value - 1e-9
        assert bound(linear_head(q, v * 2, d=13), sample, gamma, 0.05).log_value >= value - 1e-9
        assert bound(head, Sample(m, 10 * T), gamma, 0.05).log_value >= value - 1e-9
        assert bound(head, sample, gamma, 0.01).log_value >= value
        assert bound(head, sample, gamma, 0.05, cost=3.0).log_value >= value


def test_complexity_never_exceeds_the_trivial_bound():
    assert loss_complexity(linear_head(1e9, 1e9), Sample(10, 10), 1.0) == 0.5
    small = loss_complexity(linear_head(1.0, 1.0, d=2), Sample(10**9, 10), 1.0)
    assert small < 0.05


def test_occam_codes():
    assert [integer_bits(n) for n in (0, 1, -1, 7, 9)] == [1, 3, 3, 7, 9]
    assert sum(2.0 ** -integer_bits(n) for n in range(-4000, 4000)) <= 1
    assert [elias_gamma_bits(n) for n in (1, 2, 3, 4, 8)] == [1, 3, 3, 5, 7]


@pytest.mark.parametrize("minimal", [False, True])
def test_the_described_conjunction_is_exact_on_all_inputs(minimal):
    model = conjunction_model(7, (1, 4, 6), minimal=minimal)
    for bits in product([0, 1], repeat=7):
        assert (model.output(list(bits)) < 0) == (bits[1] and bits[4] and bits[6])


def test_occam_with_training_errors():
    bound = occam_bound(80, 1000, 0.05, training_error=0.1)
    expected = 0.1 + math.sqrt((80 * math.log(2) + math.log(20)) / 2000)
    assert bound.value == pytest.approx(expected)
    assert sum(term.value for term in bound.terms) == pytest.approx(expected)


def test_grid_weights_sum_to_one():
    partial = index_weight(0) + 2 * math.fsum(index_weight(j) for j in range(1, 10_000))
    assert partial == pytest.approx(1.0, abs=1e-3)
    assert partial <= 1.0


@given(st.floats(1e-6, 1e6), st.floats(0.1, 10.0), st.sampled_from([0.01, 0.1, 1.0]))
def test_rounding_up_costs_at_most_one_grid_step(value, centre, g):
    got = round_up({"n": value}, {"n": centre}, g)
    assert value <= got.values["n"] * (1 + 1e-12)
    assert got.values["n"] <= value * (1 + g) * (1 + 1e-9)
    assert got.cost == pytest.approx(-math.log(index_weight(grid_index(value, centre, g))))


@given(st.floats(0.5, 1e12), st.floats(0.01, 0.9))
def test_samples_needed_is_the_smallest(scale, target):
    m = samples_needed(lambda n: scale / n, target)
    assert scale / m <= target
    assert m == 1 or scale / (m * (1 - 1e-11) - 1) > target


@pytest.mark.parametrize("first", [1, 2, 5, 37, 10**6])
def test_samples_needed_where_a_bound_says_nothing_before(first):
    """Infinite up to some m and zero beyond: no chord to follow, and still the smallest m."""
    assert samples_needed(lambda n: math.inf if n < first else 0.0, 0.5) == first
    assert samples_needed(lambda n: math.inf if n < first else 0.5, 0.5) == first


def test_a_measured_loss_is_no_assumption():
    """What was looked at on the training sequences holds; a loss taken to be 0 is assumed."""
    assert _loss_assumption(0.5, 0.1, measured=True).holds is True
    assert _loss_assumption(0.5, 0.0, measured=False).holds is None


def test_samples_needed_can_be_out_of_reach():
    assert samples_needed(lambda _: 2.0, 0.1) is None
    huge = samples_needed(lambda n: 1e250 / n, 0.1)
    assert huge == pytest.approx(1e251, rel=1e-6)


HEAD = linear_head(1.0, 1.0)
BAD = [
    (lambda: margin_bound(HEAD, Sample(5, 5), 0.0, 0.1), "margin"),
    (lambda: margin_bound(HEAD, Sample(5, 5), 1.0, 0.0), "delta: wanted"),
    (lambda: realizable_bound(HEAD, Sample(5, 5), 1.0, 1.0), "delta: wanted"),
    (lambda: margin_bound(HEAD, Sample(5, 5), 1.0, 0.1, training_loss=2.0), "training_loss"),
    (lambda: realizable_bound(HEAD, Sample(5, 5), 1.0, 0.1, cost=-1.0), "cost"),
    (lambda: realizable_bound(HEAD, Sample(5, 5), 1.0, 0.1, target=1.5), "target"),
    (lambda: occam_bound(-1, 5, 0.1), "bits"),
    (lambda: occam_bound(5, 5, 1.5), "delta"),
    (lambda: occam_bound(5, 5, 0.1, training_error=2.0), "training_error"),
    (lambda: round_up({"n": 0.0}), "value: wanted a finite number > 0"),
    (lambda: round_up({"n": 1.0}, g=0.0), "g: wanted"),
    (lambda: ramp_loss([], 1.0), "margins"),
    (lambda: ramp_loss([1.0], 0.0), "gamma"),
    (lambda: conjunction_model(5, (7,)), "kept: wanted positions below T = 5"),
    (lambda: IntegerTableModel(5, ((0, 0),), (0, 0), {1: ((0, 0), (0, 0))}), "kept"),
    (lambda: conjunction_model(5, (1,)).output([0]), "symbols"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_one_line(call, message):
    with one_line(message):
        call()
