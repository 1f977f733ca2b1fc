"""Every enclosure against rational or 60-digit arithmetic."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.compiler.proof.enclosed import (
    Enclosed,
    exactly,
    exp_bounds,
    inverse_root_between,
    nearest,
)
from capax.compiler.proof.ridge import ridge

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


def holds(found: Enclosed, index, value: Fraction) -> bool:
    low, high = float(found.low[index]), float(found.high[index])
    return Fraction(low) <= value <= Fraction(high)


def test_exp_holds_the_exponential():
    x = np.random.default_rng(0).uniform(-699, 699, 4000)
    low, high = exp_bounds(x, 0.0)
    with mpmath.workdps(60):
        for value, a, b in zip(x, low, high, strict=True):
            truth = mpmath.exp(mpmath.mpf(float(value)))
            assert mpmath.mpf(float(a)) <= truth <= mpmath.mpf(float(b))
    assert (high / low - 1).max() < 2.5e-12  # 2^-50 |x| is most of it: the error of a score
    ends = exp_bounds(np.array([-800.0, 800.0]), 0.0)
    assert ends[0][0] == 0 and 0 < ends[1][0] < 1e-300
    assert ends[0][1] > 1e300 and ends[1][1] == np.inf


@settings(max_examples=30)
@given(st.lists(NUMBERS, min_size=4, max_size=4), st.lists(NUMBERS, min_size=4, max_size=4))
def test_sums_and_products_hold_the_rational_ones(xs, ys):
    x, y = exactly(xs), exactly(ys)
    exact = [(Fraction(a), Fraction(b)) for a, b in zip(xs, ys, strict=True)]
    for i, (a, b) in enumerate(exact):
        assert holds(x + y, i, a + b)
        assert holds(x * y, i, a * b)
    dot = x[None] @ y[:, None]
    assert holds(dot, (0, 0), sum((a * b for a, b in exact), Fraction(0)))


SIDES = st.floats(1e-3, 1e3)


@settings(max_examples=15)
@given(
    st.lists(st.tuples(NUMBERS, SIDES), min_size=3, max_size=3),
    st.lists(st.tuples(NUMBERS, SIDES), min_size=3, max_size=3),
    st.sampled_from([1e-9, 1e-3, 1.0]),
)
def test_every_corner_of_enclosed_numbers_is_held(xs, ys, size):
    """Chains of operations on intervals, against exact fractions at the ends of the intervals."""

    def enclosed(pairs):
        mid, rad = np.array(pairs).T
        return Enclosed(size * mid, rad), [
            [Fraction(float(size * m)) + sign * Fraction(r) for sign in (-1, 1)] for m, r in pairs
        ]

    (x, ends_x), (y, ends_y) = enclosed(xs), enclosed(ys)
    total, product, dot = x + y, x * y, x[None] @ y[:, None]
    squares = (x * x + y).sum(0)
    for signs in itertools.product((0, 1), repeat=6):
        a = [e[s] for e, s in zip(ends_x, signs[:3], strict=True)]
        b = [e[s] for e, s in zip(ends_y, signs[3:], strict=True)]
        for i in range(3):
            assert holds(total, i, a[i] + b[i])
            assert holds(product, i, a[i] * b[i])
        assert holds(dot, (0, 0), sum(p * q for p, q in zip(a, b, strict=True)))
        assert holds(squares, (), sum(p * p + q for p, q in zip(a, b, strict=True)))


@settings(max_examples=30)
@given(
    st.lists(st.tuples(NUMBERS, SIDES), min_size=3, max_size=3),
    st.lists(st.tuples(NUMBERS, SIDES), min_size=3, max_size=3),
    st.booleans(),
)
def test_radii_are_not_below_their_exact_formulas(xs, ys, exact):
    """The ends are rounded once more, which would hide a radius that is a little too small."""
    (m, r), (n, s) = (np.array(pairs).T for pairs in (xs, ys))
    if exact:
        r, s = 0 * r, 0 * s
    x, y = Enclosed(m, r), Enclosed(n, s)
    M, R, N, S = ([Fraction(float(z)) for z in array] for array in (m, r, n, s))
    total, product = x + y, x * y
    moved = [abs(M[i]) * S[i] + R[i] * (abs(N[i]) + S[i]) for i in range(3)]
    for i in range(3):
        lost = abs(M[i] + N[i] - Fraction(float(total.mid[i])))
        assert Fraction(float(total.rad[i])) >= R[i] + S[i] + lost
        lost = abs(M[i] * N[i] - Fraction(float(product.mid[i])))
        assert Fraction(float(product.rad[i])) >= moved[i] + lost
    dot, plain = x[None] @ y[:, None], x.sum(0)
    lost = abs(sum(a * b for a, b in zip(M, N, strict=True)) - Fraction(float(dot.mid[0, 0])))
    assert Fraction(float(dot.rad[0, 0])) >= sum(moved) + lost
    assert Fraction(float(plain.rad)) >= sum(R) + abs(sum(M) - Fraction(float(plain.mid)))


def test_products_that_underflow_are_held():
    tiny = exactly([1e-200, 3e-170]) * exactly([1e-200, 1e-160])
    assert holds(tiny, 0, Fraction(1e-200) ** 2) and holds(tiny, 1, Fraction(3e-170 * 1e-9) ** 2)
    assert holds(exactly([[1e-200]]) @ exactly([[1e-200]]), (0, 0), Fraction(1e-200) ** 2)


def test_exp_of_an_interval_holds_both_ends():
    """Errors of the argument from 10^-12 to 1, and differences of scores rounded before."""
    rng = np.random.default_rng(3)
    x, error = rng.uniform(-600, 600, 500), 10.0 ** rng.uniform(-12, 0, 500)
    low, high = exp_bounds(x, error)
    with mpmath.workdps(40):
        for value, e, a, b in zip(x, error, low, high, strict=True):
            ends = [mpmath.exp(mpmath.mpf(value) + s * mpmath.mpf(e)) for s in (-1, 1)]
            assert mpmath.mpf(a) <= ends[0] and ends[1] <= mpmath.mpf(b)
    # a difference of two scores is off by u |difference|: exp_bounds allows for it
    small, large = 2.0**-52 * 3, 513.0 + 2.0**-43
    difference = small - large
    lost = Fraction(small) - Fraction(large) - Fraction(difference)
    low, high = exp_bounds(np.array(difference), 0.0)
    with mpmath.workdps(40):
        true = mpmath.exp(mpmath.mpf(difference) + mpmath.mpf(float(lost)))
        assert mpmath.mpf(float(low)) <= true <= mpmath.mpf(float(high))
    wide = np.log(float(high)) - np.log(float(low))
    assert wide >= 2 * 2.0**-53 * abs(difference)


def test_an_exponent_that_its_error_swallows_is_held():
    """x + 600 rounds to 600, and e^600 is too small by more than the error of exp."""
    x = 0.99 * 2.0**-44
    assert 600.0 + x == 600.0
    low, high = exp_bounds(np.array([x, -x]), np.array([600.0, 600.0]))
    with mpmath.workdps(60):
        top = mpmath.exp(mpmath.mpf(600) + mpmath.mpf(x))
        assert mpmath.mpf(float(high[0])) >= top and mpmath.mpf(float(low[1])) <= 1 / top


def test_an_exact_sum_stays_exact_and_a_rational_is_enclosed():
    total = exactly([1.0, 0.1]) + exactly([2.0, 0.2])
    assert total.rad[0] == 0 and total.low[0] == total.high[0] == 3.0
    assert total.rad[1] > 0
    third = nearest([Fraction(1, 3), Fraction(1, 4)])
    assert holds(third, 0, Fraction(1, 3)) and third.rad[1] == 0


def test_products_roots_and_exponentials_hold_what_extended_precision_says():
    rng = np.random.default_rng(2)
    a = rng.standard_normal((5, 300)) * np.exp(8 * rng.standard_normal((5, 300)))
    b = rng.standard_normal((300, 4)) * np.exp(8 * rng.standard_normal((300, 4)))
    product = exactly(a) @ exactly(b)
    total = exactly(b).sum(0)
    exp = exactly(a[:, :6] % 50).exp()
    root = exactly(np.abs(a)).inverse_root()
    with mpmath.workdps(60):
        for j in range(4):
            assert total.low[j] <= mpmath.fsum(map(mpmath.mpf, b[:, j])) <= total.high[j]
        for i in range(5):
            for j in range(4):
                true = mpmath.fsum(
                    mpmath.mpf(x) * mpmath.mpf(y) for x, y in zip(a[i], b[:, j], strict=True)
                )
                assert product.low[i, j] <= true <= product.high[i, j]
            for j in range(6):
                assert exp.low[i, j] <= mpmath.exp(mpmath.mpf(a[i, j] % 50)) <= exp.high[i, j]
                assert (
                    root.low[i, j] <= 1 / mpmath.sqrt(abs(mpmath.mpf(a[i, j]))) <= root.high[i, j]
                )
    spread = inverse_root_between(np.array(1e-5), np.array(1e9))
    assert spread.low <= 1e9**-0.5 and spread.high >= 1e-5**-0.5


@settings(max_examples=30)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5),
    st.tuples(NUMBERS, NUMBERS),
)
def test_a_ridge_is_bounded_at_its_ends_and_kinks(units, interval):
    biases, weights = (np.array(part) for part in zip(*units, strict=True))
    low, high = sorted(interval)
    found = ridge(biases, weights)
    bottom, top = found.bounds(np.array([low]), np.array([high]))

    def h(l: Fraction) -> Fraction:
        terms = (Fraction(w) * max(l + Fraction(b), Fraction(0)) for b, w in units)
        return sum(terms, Fraction(0))

    inside = [Fraction(-b) for b in biases if low < -b < high]
    values = [h(l) for l in (Fraction(low), Fraction(high), *inside)]
    assert Fraction(float(bottom[0])) <= min(values) and max(values) <= Fraction(float(top[0]))


def test_a_plateau_has_one_value_whatever_the_rounding():
    found = ridge(np.array([0.0, -1.0]), np.array([3.0, -3.0]))
    assert found.ends_flat
    bottom, top = found.bounds(np.array([1.1, -5.0]), np.array([1e300, 0.0]))
    assert bottom.tolist() == top.tolist() == [3.0, 0.0]
