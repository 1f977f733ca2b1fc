"""PAC-Bayes, Gibbs on the version space and the linear read-out: formulas, directions, errors."""

import math
from fractions import Fraction
from itertools import permutations

import equinox as eqx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_sets import ALL, T

import capax
from capax.boolean.parser import parse
from capax.capacity.certificates.best_placements import best_placements
from capax.capacity.certificates.gibbs import distance_squared
from capax.capacity.certificates.linear_readout import linear_complexity, linear_readout_bound
from capax.capacity.certificates.pac_bayes import (
    GibbsErrors,
    gaussian_kl,
    gaussian_pac_bayes_bound,
    pac_bayes_bound,
    version_space_bound,
)
from capax.capacity.complexity.chaining import rademacher_from_cover
from capax.capacity.complexity.rademacher import rademacher_exact
from capax.capacity.complexity.tail_inversion import kl
from capax.capacity.linear.linear_classes import quadratic_constant_vector
from capax.errors import InfeasibleError
from one_line import one_line


def test_the_bound_is_its_formula():
    bound = pac_bayes_bound(0.1, 7.0, 400, 0.05)
    rate = (7 + math.log(2 * 20 / 0.05)) / 400
    assert kl(0.1, bound.value) == pytest.approx(rate)
    assert bound.predictor.startswith("the Gibbs predictor")
    assert bound.delta == 0.05


def test_the_gaussian_bound_pays_for_the_grid_and_for_sampling():
    one = gaussian_pac_bayes_bound(GibbsErrors(0.5, (0.1,), (0.2,), 1000, 500), 0.05)
    exact = pac_bayes_bound(0.2, gaussian_kl(0.5, 0.1), 500, 0.05)
    three = gaussian_pac_bayes_bound(
        GibbsErrors(0.5, (0.1, 0.2, 0.4), (0.2, 0.9, 0.9), 1000, 500), 0.05
    )
    assert exact.value < one.value < three.value
    assert three.norms["sigma"] == 0.1
    assert three.delta == 0.05
    assert "one of 3" in three.notes[0]


def test_gaussian_kl_is_the_integral():
    rng = np.random.default_rng(0)
    theta, prior, sigma = np.array([0.3, -0.2]), np.array([0.1, 0.4]), 0.7
    x = theta + sigma * rng.normal(size=(400_000, 2))
    logs = (((x - prior) ** 2).sum(axis=1) - ((x - theta) ** 2).sum(axis=1)) / (2 * sigma**2)
    assert gaussian_kl(float(((theta - prior) ** 2).sum()), sigma) == pytest.approx(
        logs.mean(), rel=0.02
    )


@given(st.floats(0, 20), st.integers(1, 50), st.integers(8, 10_000))
def test_the_version_space_bound_without_errors_has_a_closed_form(log_ratio, survivors, m):
    bound = version_space_bound(log_ratio + math.log(survivors), survivors, m, 0.05)
    rate = (log_ratio + math.log(2 * math.sqrt(m) / 0.05)) / m
    assert bound.value == pytest.approx(-math.expm1(-rate), rel=1e-9)
    assert bound.value < 1 or rate > 30


@pytest.mark.parametrize("name, order", [("maj3", False), ("x0 & ~x1", True)])
def test_the_fewest_errors_are_found_by_trying_every_placement(name, order):
    rng, f = np.random.default_rng(1), parse(name)
    X = rng.integers(0, 2, (60, 6))
    y = f.on(tuple(range(f.s)))(X).astype(int) ^ (rng.random(60) < 0.3)
    wrong = {}
    for places in permutations(range(6), f.s):
        labels = f.on(places)(X)
        key = places if order else tuple(sorted(places))
        wrong[key] = int((labels != y).sum())
    best = best_placements(f, X, y)
    assert best.errors == min(wrong.values()) > 0
    assert best.count == sum(value == best.errors for value in wrong.values())
    assert wrong[best.first if order else tuple(sorted(best.first))] == best.errors
    assert math.exp(best.log_placements) == pytest.approx(len(wrong))


def test_survivors_are_counted_without_noise():
    X = ALL[np.random.default_rng(2).integers(len(ALL), size=40)]
    y = X[:, [1, 4, 7]].all(axis=1).astype(int)
    best = best_placements(parse("and3"), X, y)
    gibbs, occam = best.bounds("and3", 0.1)
    assert best.errors == 0
    assert gibbs.predictor != occam.predictor == "and3 on x1, x4, x7"
    expected = 1 - (0.05 / math.comb(T, 3)) ** (1 / 40)
    assert occam.value == pytest.approx(expected)


def test_linear_complexity_is_above_the_exact_one():
    """sup over |w| <= a is a |sum s_i z_i| / m: tried on a fine grid of directions in the plane."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(9, 2))
    angles = np.linspace(0, 2 * math.pi, 721)[:-1]
    values = 1.7 * np.stack([np.cos(angles), np.sin(angles)], axis=1) @ Z.T
    exact = rademacher_exact(values).value
    bound = linear_complexity(1.7, Z)
    assert exact <= bound <= 1.4 * exact


def test_the_way_through_covers_is_much_larger():
    Z = np.random.default_rng(0).normal(size=(1000, 5))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    direct = linear_complexity(1.0, Z)
    through_covers = rademacher_from_cover(
        quadratic_constant_vector(1.0, 1.0, 1000), 1.0, 1000, external=True
    )
    assert direct == pytest.approx(1 / math.sqrt(1000), rel=1e-9)
    assert through_covers > 10 * direct


def test_the_linear_bound_does_not_feel_the_scale_of_the_read_out():
    rng = np.random.default_rng(4)
    Z, w = rng.normal(size=(500, 3)), np.array([1.0, -2.0, 0.5])
    signs = np.sign(Z @ w + 0.1 * rng.normal(size=500))
    values = [linear_readout_bound(Z, scale * w, signs, 0.05).value for scale in (1e-6, 1.0, 1e6)]
    assert values == pytest.approx([values[0]] * 3, rel=1e-6)


def test_the_ramp_loss_of_a_read_out_is_not_below_that_of_exact_margins():
    """Large terms that cancel: margins are sums in float64, the loss is held against fractions."""
    rng = np.random.default_rng(0)
    common, near = rng.normal(size=(200, 1)) * 1e15, rng.normal(size=(200, 1)) * 0.3
    features = np.hstack([common, common + near, rng.normal(size=(200, 1))])
    w = np.array([-1 / 3, 1 / 3, -0.1])
    exact = [sum(Fraction(a) * Fraction(b) for a, b in zip(row, w, strict=True))
             for row in features.tolist()]  # fmt: skip
    for signs in (np.ones(200), np.array([1.0 if x > 0 else -1.0 for x in exact])):
        bound = linear_readout_bound(features, w, signs, 0.05)
        gamma = Fraction(bound.norms["margin"])
        ramp = [min(max(1 - Fraction(s) * x / gamma, 0), 1)
                for s, x in zip(signs, exact, strict=True)]  # fmt: skip
        assert Fraction(bound.terms[0].value) >= sum(ramp) / 200 * (1 - Fraction(1, 10**12))
    said = [assumed.text for assumed in bound.assumptions]
    assert any("independent" in text for text in said)
    assert any("features were fixed" in text for text in said)


def test_the_length_between_two_networks_is_rounded_up_and_no_further():
    one, other = (capax.compile("x0 & x1", 3, dtype=np.float64).model for _ in range(2))
    other = eqx.tree_at(lambda m: m.w, other, other.w + 0.1)
    exact = sum((Fraction(float(a)) - Fraction(float(b))) ** 2
                for a, b in zip(np.ravel(one.w), np.ravel(other.w), strict=True))  # fmt: skip
    assert exact <= Fraction(distance_squared(one, other)) <= exact * (1 + Fraction(1, 10**10))


Z, W, SIGNS = np.ones((9, 2)), np.ones(2), np.ones(9)
BAD = [
    (lambda: pac_bayes_bound(0.1, 1.0, 7, 0.05), "n: wanted an integer >= 8"),
    (lambda: pac_bayes_bound(1.1, 1.0, 9, 0.05), "error: wanted"),
    (lambda: pac_bayes_bound(0.1, -1.0, 9, 0.05), "kl: wanted"),
    (lambda: gaussian_kl(1.0, 0.0), "sigma: wanted"),
    (lambda: GibbsErrors(1.0, (0.1,), (), 10, 10), "errors: wanted one for each of 1"),
    (lambda: version_space_bound(1.0, 0, 9, 0.05), "survivors: wanted"),
    (lambda: version_space_bound(1.0, 1, 9, 0.05, errors=10), "errors: wanted"),
    (lambda: linear_readout_bound(Z, 0 * W, SIGNS, 0.05), "w: wanted a read-out that is not zero"),
    (lambda: linear_readout_bound(Z, W, 0 * SIGNS, 0.05), "signs: wanted labels -1 and 1"),
    (lambda: best_placements(parse("x0 & x1"), np.full((3, 4), 2), np.ones(3)), "X: wanted bits"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_one_line(call, message):
    with one_line(message):
        call()


def test_too_many_placements_with_noise_are_refused():
    X = np.random.default_rng(0).integers(0, 2, (400, 300))
    with pytest.raises(InfeasibleError, match="too many to try"):
        best_placements(parse("maj3"), X, np.random.default_rng(1).integers(0, 2, 400))
