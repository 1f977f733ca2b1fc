"""Covers and packings of finite sets against brute force, the sandwich, ties and deadlines."""

import functools
import itertools
import operator
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.covers.covering_curve import covering_curve, farthest_first
from capax.capacity.covers.covering_sets import (
    covering_number,
    greedy_cover,
    harmonic,
    is_cover,
    sweep,
)
from capax.capacity.covers.metrics import FiniteSpace, space_from_distances, space_from_points
from capax.capacity.covers.packing_sets import greedy_packing, is_packing, packing_number
from capax.capacity.covers.set_cover import minimum_set_cover, reduce
from capax.errors import InputError


def unions(masks, size):
    """The union of every choice of `size` bit masks."""
    for choice in itertools.combinations(masks, size):
        yield functools.reduce(operator.or_, choice)


def brute_force_cover(space, eps):
    """Every subset of centres, smallest first; balls as bit masks."""
    masks = [int("".join("01"[int(c)] for c in column), 2) for column in space.within(eps).T]
    full = 2 ** len(space) - 1
    return next(k for k in range(1, len(space) + 1) if full in unions(masks, k))


def brute_force_packing(space, delta):
    near = space.within(delta) & ~np.eye(len(space), dtype=bool)
    subsets = itertools.product([False, True], repeat=len(space))
    return max(sum(s) for s in subsets if not near[np.ix_(s, s)].any())


@st.composite
def spaces(draw, max_points=12):
    """Points on a small grid: many exact ties and duplicates, several metrics and dimensions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (draw(st.integers(1, max_points)), draw(st.integers(1, 3)))
    metric = draw(st.sampled_from(["euclidean", "manhattan", "chebyshev", "hamming"]))
    return space_from_points(rng.integers(0, 8, size=shape), metric)


radii = st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.0**0.5, 8.0**0.5, 3.0, 5.0])


@settings(max_examples=60)
@given(spaces(), radii)
def test_exact_cover_equals_brute_force(space, eps):
    cover = covering_number(space, eps)
    assert cover.exact == brute_force_cover(space, eps)
    assert is_cover(space, cover.centres, eps)


@settings(max_examples=40)
@given(spaces(max_points=9), radii)
def test_exact_packing_equals_brute_force(space, delta):
    packing = packing_number(space, delta)
    assert packing.exact == brute_force_packing(space, delta)
    assert is_packing(space, packing.points, delta)


@settings(max_examples=80)
@given(spaces(max_points=9), radii)
def test_packing_and_cover_sandwich(space, eps):
    """M(2 eps) <= N(eps) <= M(eps), greedy <= H(b) N, greedy packing <= packing, on 80 sets."""
    cover, greedy = covering_number(space, eps), greedy_cover(space, eps)
    wide, narrow = packing_number(space, 2 * eps), packing_number(space, eps)
    assert wide.exact <= cover.exact <= narrow.exact
    assert greedy.lower <= cover.exact <= greedy.upper <= greedy.guarantee * cover.exact + 1e-9
    loose = greedy_packing(space, eps)
    assert loose.lower <= narrow.exact <= loose.upper
    assert is_cover(space, greedy.centres, eps)
    assert is_cover(space, loose.points, eps)  # a maximal packing is a cover


@settings(max_examples=30)
@given(spaces(max_points=10))
def test_curve_agrees_with_single_radii_and_only_falls(space):
    curve = covering_curve(space)
    assert curve.exact
    assert (np.diff(curve.upper) <= 0).all()
    assert curve.upper[-1] == 1
    for eps in (0.3, 1.0, 1.7, 2.0, 2**0.5, 3.0, 5.5, 100.0):
        assert curve(eps) == (covering_number(space, eps).exact,) * 2


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=12), st.integers(1, 9))
def test_sweep_on_the_line_equals_the_general_solver(values, eps):
    line = space_from_points(values)
    general = minimum_set_cover(line.within(eps), time.monotonic() + 60)
    assert len(sweep(line, eps)) == general.lower == general.upper
    assert is_cover(line, sweep(line, eps), eps)
    assert covering_number(line, eps).method == "sweep"


@settings(max_examples=25)
@given(spaces(), radii)
def test_reductions_keep_the_optimum(space, eps):
    contains = space.within(eps)
    points, balls = reduce(contains)
    small = contains[np.ix_(points, balls)]
    best = minimum_set_cover(small, time.monotonic() + 60)
    assert best.upper == brute_force_cover(space, eps)
    assert contains[:, balls[list(best.chosen)]].any(axis=1).all()


@settings(max_examples=25)
@given(spaces(), radii, st.integers(1, 5))
def test_scaling_and_larger_metrics(space, eps, factor):
    exact = covering_number(space, eps).exact
    scaled = FiniteSpace(space.distances * factor)
    assert covering_number(scaled, eps * factor).exact == exact
    assert covering_number(scaled, eps).exact >= exact


def test_internal_covers_are_not_monotone_under_inclusion():
    angles = 2 * np.pi * np.arange(5) / 5
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert covering_number(space_from_points(circle), 1.0).exact == 5
    with_centre = space_from_points(np.vstack([circle, np.zeros(2)]))
    assert covering_number(with_centre, 1.0).exact == 1


def test_the_curve_is_exact_on_forty_points():
    space = space_from_points(np.random.default_rng(7).random((40, 2)))
    curve = covering_curve(space, time_limit=30)
    assert curve.exact
    for eps in (0.05, 0.2, 0.35):
        assert curve(eps)[0] == covering_number(space, eps).exact
    assert [n for _, n in curve.jumps()] == sorted({n for _, n in curve.jumps()}, reverse=True)


def test_greedy_on_two_thousand_points():
    points = np.random.default_rng(11).random((2000, 2))
    space = space_from_points(points)
    cover = greedy_cover(space, 0.1)
    assert is_cover(space, cover.centres, 0.1)


@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_at_the_time_limit_the_interval_is_honest(limit):
    """Hard instance: the limit is hit, both ends are certified, and a longer run stays inside."""
    space = space_from_points(np.random.default_rng(3).random((400, 2)))
    cover = covering_number(space, 0.12, time_limit=limit)
    assert is_cover(space, cover.centres, 0.12)
    assert cover.lower <= cover.upper
    assert cover.lower >= greedy_packing(space, 0.24).lower - 3
    if limit == 0.0:
        assert cover.exact is None
        longer = covering_number(space, 0.12, time_limit=0.5)
        assert cover.lower <= longer.lower <= longer.upper <= cover.upper


def test_time_limit_zero_gives_intervals_that_hold_for_packings_and_curves():
    space = space_from_points(np.random.default_rng(5).random((40, 2)))
    packing, loose = packing_number(space, 0.2), packing_number(space, 0.2, time_limit=0)
    assert loose.lower <= packing.exact <= loose.upper
    assert is_packing(space, loose.points, 0.2)
    bracket, exact = covering_curve(space, time_limit=0), covering_curve(space)
    assert not bracket.exact
    assert (bracket.lower <= exact.lower).all()
    assert (exact.upper <= bracket.upper).all()


def test_dense_graphs_fall_back_to_the_greedy_interval():
    space = space_from_points(np.random.default_rng(5).random((700, 2)))
    packing = packing_number(space, 0.9, time_limit=5)
    assert 1 <= packing.lower <= packing.upper


@given(spaces())
def test_farthest_first_visits_every_point_with_falling_radii(space):
    order, radius = farthest_first(space)
    assert len(order) == len(set(order)) == len(radius)
    assert is_cover(space, tuple(order), 1e-9)
    assert (np.diff(radius) <= 0).all()
    assert radius[-1] == 0


def test_without_the_triangle_inequality_covers_stay_exact():
    """d(0,1) = d(1,2) = 1 but d(0,2) = 10: one ball around 1 covers, though 0 and 2 are far."""
    D = [[0, 1, 10], [1, 0, 1], [10, 1, 0]]
    space = space_from_distances(D, triangle=False)
    assert covering_number(space, 1).exact == 1
    assert packing_number(space, 2).exact == 2
    assert covering_curve(space).jumps() == [(0.0, 3), (1.0, 1)]


def test_ties_are_closed_and_can_be_made_strict():
    points = [(0.5, 0.7), (0.2, 0.3)]
    assert covering_number(space_from_points(points), 0.5).exact == 1
    shifted = space_from_points([0.0, 1.0 + 1e-12])
    assert covering_number(shifted, 1.0).exact == 1
    assert covering_number(space_from_points([0.0, 1.0 + 1e-12], tie=0.0), 1.0).exact == 2
    assert covering_number(space_from_points([0.0, 1.0 + 1e-6]), 1.0).exact == 2


def test_harmonic_numbers():
    assert harmonic(4) == pytest.approx(25 / 12)


@pytest.mark.parametrize("eps", [0, -1.0, float("nan"), float("inf")])
def test_bad_radii(eps):
    space = space_from_points([0.0, 1.0])
    plane = space_from_points([(0.0, 1.0)])
    calls = [
        lambda: covering_number(space, eps),
        lambda: covering_number(plane, eps),
        lambda: greedy_cover(space, eps),
        lambda: sweep(space, eps),
        lambda: covering_curve(space)(eps),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"^eps: wanted a finite number > 0, got"):
            call()
    with pytest.raises(InputError, match=r"^delta: wanted a finite number > 0, got"):
        packing_number(space, eps)


def test_bad_time_limits():
    space = space_from_points([0.0, 1.0])
    for call in (
        lambda: covering_number(space, 1.0, time_limit=-1),
        lambda: packing_number(space, 1.0, time_limit=-1),
        lambda: covering_curve(space, time_limit=float("nan")),
    ):
        with pytest.raises(InputError, match="time_limit: wanted a number >= 0"):
            call()
