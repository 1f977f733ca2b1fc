"""Distances by name against their formulas, and every refusal."""

import math

import numpy as np
import pytest

from capax.capacity.covers.metrics import (
    MAX_POINTS,
    METRICS,
    space_from_distances,
    space_from_points,
)
from capax.errors import InfeasibleError, InputError

FORMULAS = {
    "euclidean": lambda x, y: math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))),
    "manhattan": lambda x, y: sum(abs(a - b) for a, b in zip(x, y, strict=True)),
    "chebyshev": lambda x, y: max(abs(a - b) for a, b in zip(x, y, strict=True)),
    "hamming": lambda x, y: sum(a != b for a, b in zip(x, y, strict=True)),
    "angular": lambda x, y: math.acos(
        max(-1.0, min(1.0, float(np.dot(x, y) / np.linalg.norm(x) / np.linalg.norm(y))))
    ),
}


@pytest.mark.parametrize("metric", METRICS)
def test_distances_follow_their_formula_and_are_pseudometrics(metric):
    points = np.random.default_rng(0).integers(1, 4, size=(7, 3)).astype(float)
    space = space_from_points(points, metric)
    expected = [[FORMULAS[metric](x, y) for y in points] for x in points]
    assert np.allclose(space.distances, expected, atol=1e-7)
    assert space_from_distances(space.distances).diameter == space.diameter
    assert (space.distances == space.distances.T).all()


def test_numbers_are_points_on_the_line():
    assert np.array_equal(space_from_points([1, 4]).distances, [[0, 3], [3, 0]])


def test_small_angles_stay_accurate():
    space = space_from_points([(1.0, 0.0), (math.cos(1e-9), math.sin(1e-9))], "angular")
    assert space.diameter == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize(
    "points, message",
    [
        ([], "points: wanted at least one entry, got 'shape (0, 1)'"),
        (np.zeros((3, 0)), "points: wanted at least one entry, got 'shape (3, 0)'"),
        ([[0, math.nan]], "points: wanted finite numbers only, got '1 NaN or infinite number"),
        ([[0, math.inf]], "points: wanted finite numbers only, got '1 NaN or infinite number"),
        (np.zeros((2, 2, 2)), "points: wanted a table with one point per row, got"),
        ([[0, 1], [2]], "points: wanted a table of numbers, got"),
        ([["a", "b"]], "points: wanted a table of numbers, got could not convert"),
        ([[1e308, 0], [-1e308, 0]], "points: wanted distances that fit a float, got"),
    ],
)
def test_bad_points(points, message):
    with pytest.raises(InputError) as caught:
        space_from_points(points)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "distances, message",
    [
        ([], "distances: wanted a square matrix, got 'shape (0,)'"),
        (np.zeros((0, 0)), "distances: wanted at least one entry, got 'shape (0, 0)'"),
        ([[0, 1, 2], [1, 0, 2]], "distances: wanted a square matrix, got 'shape (2, 3)'"),
        ([[0, 1], [2, 0]], "distances: wanted a symmetric matrix, got d(0,1) = 1, d(1,0) = 2"),
        ([[0, -1], [-1, 0]], "distances: wanted entries >= 0, got d(0,1) = -1, d(1,0) = -1"),
        ([[1, 1], [1, 0]], "distances: wanted a zero diagonal, got d(0,0) = 1"),
        (
            [[0, math.nan], [math.nan, 0]],
            "distances: wanted finite numbers only, got '2 NaN or infinite numbers",
        ),
        (
            [[0, 1, 5], [1, 0, 1], [5, 1, 0]],
            "distances: wanted the triangle inequality, got d(0,2) = 5 > d(0,1) + d(1,2) = 2",
        ),
    ],
)
def test_bad_distances(distances, message):
    with pytest.raises(InputError) as caught:
        space_from_distances(distances)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_unknown_metric_and_zero_angle():
    with pytest.raises(InputError, match="metric: wanted one of euclidean, manhattan"):
        space_from_points([[1.0, 2.0]], "euclidian")
    with pytest.raises(InputError, match="no zero vector under the angular metric"):
        space_from_points([[0.0, 0.0], [1.0, 0.0]], "angular")


def test_too_many_points_is_said_before_memory_is_taken():
    with pytest.raises(InfeasibleError, match="at most 12000"):
        space_from_points(np.zeros((MAX_POINTS + 1, 1)))


def test_rounding_errors_in_a_given_matrix_are_forgiven():
    D = np.array([[1e-14, 1.0], [1.0 + 1e-12, 0.0]])
    assert np.array_equal(space_from_distances(D).distances, space_from_distances(D).distances.T)
