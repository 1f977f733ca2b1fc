"""Targets and their measures, against brute force."""

import itertools
from functools import lru_cache

import numpy as np
import pytest

from capax.boolean.named_functions import from_table
from capax.boolean.parser import parse
from capax.boolean.traits.fourier import fourier_coefficients
from capax.boolean.traits.leap import biased_coefficients, leap
from capax.cards.protocol.targets import TARGETS, target_of
from capax.errors import InputError


def brute_force_leap(f, p):
    """The best of all orders of the sets with a coefficient, by definition."""
    c = biased_coefficients(f, p)
    return best_order(frozenset(S for S in range(1, 2**f.s) if abs(c[S]) > 1e-9))


@lru_cache(maxsize=256)
def best_order(sets):
    best = 9
    for order in itertools.permutations(sets):
        found, largest = 0, 0
        for S in order:
            largest, found = max(largest, (S & ~found).bit_count()), found | S
        best = min(best, largest)
    return best if sets else 0


@pytest.mark.parametrize("p", [0.5, 0.794])
def test_leap_is_the_best_order(p):
    """All functions of three bits."""
    for number in range(256):
        f = from_table(number, (0, 1, 2))
        assert leap(f, p) == brute_force_leap(f, p)


@pytest.mark.parametrize("formula", ["and3", "maj5", "x0 ^ (x1 & ~(x2 & ~x3))"])
def test_biased_coefficients_are_expectations(formula):
    f, p = parse(formula), 0.3
    rows = np.array(list(itertools.product([0, 1], repeat=f.s)))[:, ::-1]  # row r: bit i of r
    weight = np.prod(np.where(rows, p, 1 - p), axis=1)
    unit = (rows - p) / np.sqrt(p * (1 - p))
    for S in range(2**f.s):
        chi = np.prod(unit[:, [i for i in range(f.s) if S >> i & 1]], axis=1)
        wanted = float(weight @ (f.table * chi))
        assert biased_coefficients(f, p)[S] == pytest.approx(wanted, abs=1e-12)


def test_at_one_half_they_are_fouriers():
    f = parse("maj3")
    signs = np.array([(-1) ** S.bit_count() for S in range(8)])
    np.testing.assert_allclose(biased_coefficients(f, 0.5), signs * fourier_coefficients(f))


def test_what_is_known_about_the_targets():
    known = {name: target_of(name) for name in TARGETS}
    assert {name: t.leap for name, t in known.items()} == {
        "and3": 1, "or3": 1, "maj5": 1, "xor2": 2, "parity3": 3, "staircase": 1, "shuffled": 2,
    }  # fmt: skip
    stair, twin = known["staircase"], known["shuffled"]
    assert (stair.s, stair.degree, stair.p) == (twin.s, twin.degree, twin.p) == (4, 4, 0.5)
    assert known["and3"].p == pytest.approx(2 ** (-1 / 3))


def test_a_target_that_depends_on_nothing_is_refused():
    with pytest.raises(InputError, match="target"):
        target_of("1")
