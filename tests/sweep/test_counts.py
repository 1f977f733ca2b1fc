"""Outcomes counted, and the success rates that do not decrease with m."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from capax.errors import InputError
from capax.sweep.searching.counts import Counts, isotonic_rates, isotonic_threshold


def test_isotonic_rates_against_scipy():
    rng = np.random.default_rng(3)
    total = rng.integers(1, 9, 13)
    solved = rng.integers(0, total + 1)
    counts = Counts(tuple(range(1, 14)), tuple(solved.tolist()), tuple(total.tolist()))
    expected = isotonic_regression(solved / total, weights=total).x
    assert np.allclose(isotonic_rates(counts), expected)


def test_isotonic_threshold():
    assert isotonic_threshold(Counts((10, 20, 30), (0, 9, 10), (10, 10, 10))) == 20
    assert isotonic_threshold(Counts((10, 20), (0, 5), (10, 10))) is None


def test_counting_pairs():
    counts = Counts.of([(20, True), (10, False), (20, False), (20, True)])
    assert counts == Counts((10, 20), (0, 2), (1, 3))
    assert counts.trials == 4
    assert counts.up_to(19) == Counts((10,), (0,), (1,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Counts((1,), (2,), (1,)), "solved: wanted between 0 and total = 1"),
        (lambda: Counts((0,), (0,), (1,)), "m: wanted at least 1"),
        (lambda: Counts((1, 2), (0,), (1,)), "counts: wanted equal lengths"),
    ],
)
def test_impossible_arguments(make, message):
    with pytest.raises(InputError, match=message):
        make()
