"""The constants of safe rounding, against exact fractions and attained extremes."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capax.rounding import (
    LIBRARY,
    ROUND_UP,
    SLACK,
    TINY,
    UNIT,
    UNIT32,
    UP,
    digits_down,
    digits_up,
    gamma,
    lowered,
    raised,
)

NORMAL = st.floats(1e-290, 1e290) | st.floats(-1e290, -1e-290)


def test_the_units_are_attained_by_one_rounding():
    """1 + u is halfway between two numbers: rounding to even loses exactly u."""
    assert Fraction(1.0 + (1 + 2 * UNIT) * UNIT) - 1 == 2 * Fraction(UNIT)
    assert Fraction(1.0 + UNIT) == 1
    assert float(np.float32(1.0) + np.float32(UNIT32)) == 1.0
    assert float(np.float32(1.0) + np.float32(UNIT32 * 1.001)) == 1.0 + 2 * UNIT32
    assert LIBRARY == 32 * UNIT


def test_gamma_is_not_below_the_bound_for_n_roundings():
    for n in (1, 2, 17, 10**6):
        share = n * Fraction(UNIT)
        assert share / (1 - share) <= Fraction(gamma(n)) <= share / (1 - share) * Fraction(UP)
    assert gamma(2**24, UNIT32) == math.inf


def test_factors_cover_the_roundings_they_promise():
    """The worst case of n roundings of a positive number is (1 - u)^-n."""
    worst = Fraction(1) / (1 - Fraction(UNIT))
    assert worst**6 <= Fraction(ROUND_UP) * (1 - Fraction(UNIT))
    assert math.expm1(2.0**22 * UNIT * (1 + 1e-9)) < SLACK - 1
    assert math.expm1(2.0**31 * UNIT * (1 + 1e-9)) < UP - 1
    assert TINY > 2.0**70 * 5e-324


@given(NORMAL, st.integers(1, 6))
def test_raised_and_lowered_hold_every_number_so_many_roundings_away(x, n):
    for end in (1 - Fraction(UNIT), 1 + Fraction(UNIT)):
        assert Fraction(float(lowered(x, n))) < Fraction(x) / end**n < Fraction(float(raised(x, n)))
    assert raised(0.0) > 0 > lowered(0.0)


@given(NORMAL)
def test_twelve_digits_lie_on_the_named_side(x):
    above, below = digits_up(x), digits_down(x)
    assert below <= x <= above
    assert above - below <= 4e-11 * abs(x)
