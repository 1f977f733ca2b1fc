"""The lecture notes' examples with their numbers corrected."""

import math

import numpy as np
import pytest

from capax.capacity.complexity.chaining import rademacher_closed_form
from capax.capacity.complexity.vc import log_sauer, log_sauer_power
from capax.capacity.covers.covering_curve import covering_curve
from capax.capacity.covers.covering_sets import covering_number
from capax.capacity.covers.metrics import space_from_points
from capax.errors import InputError

INTENDED = space_from_points([(0.5, 0.7), (0.2, 0.3), (0.6, 0.65)])
PRINTED = space_from_points([(0.5, 0.7), (0.2, 3), (0.6, 2.5)])


def test_distances_of_the_intended_points():
    distances = sorted(INTENDED.distances[np.triu_indices(3, 1)])
    assert distances == pytest.approx([math.sqrt(0.0125), 0.5, math.sqrt(0.2825)])


@pytest.mark.parametrize(
    "eps, N", [(0.05, 3), (0.1118, 3), (0.11181, 2), (0.45, 2), (0.4999, 2), (0.5, 1), (0.6, 1)]
)
def test_step_function_of_the_intended_points(eps, N):
    assert covering_number(INTENDED, eps).exact == N
    assert covering_curve(INTENDED)(eps) == (N, N)


def test_the_tie_is_covered_by_the_centre_0_5_0_7():
    assert covering_number(INTENDED, 0.5).centres == (0,)


def test_printed_coordinates_need_three_balls_at_both_radii():
    assert PRINTED.distances[np.triu_indices(3, 1)].min() == pytest.approx(0.6403, abs=1e-4)
    assert covering_number(PRINTED, 0.05).exact == covering_number(PRINTED, 0.5).exact == 3


def test_the_number_falls_as_the_radius_grows():
    numbers = [covering_number(INTENDED, eps).exact for eps in np.linspace(0.01, 0.7, 70)]
    assert numbers == sorted(numbers, reverse=True)


def test_sauer_needs_at_least_as_many_points_as_the_dimension():
    with pytest.raises(InputError, match="m: wanted at least d = 100"):
        log_sauer_power(1, 100)
    assert log_sauer(1, 100) == pytest.approx(math.log(2))


def test_the_rademacher_bound_never_turns_negative():
    """1 + log(A sqrt(m/C)) is negative for small A; the corrected form is min(A, ...)."""
    assert 1 + math.log(0.01 * math.sqrt(10 / 1000)) < 0
    assert rademacher_closed_form(1000.0, 0.01, 10) == 0.01
