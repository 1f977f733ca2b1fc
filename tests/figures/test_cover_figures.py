"""Pictures of covers: every ball and label is where the numbers say, and files are written."""

import numpy as np
import pytest
from matplotlib.patches import Circle, Polygon, Rectangle

from capax.capacity.covers.covering_curve import covering_curve
from capax.capacity.covers.covering_sets import covering_number
from capax.capacity.covers.metrics import space_from_distances, space_from_points
from capax.errors import InputError
from capax.figures.theory.cover_balls import draw_cover, draw_warm_up
from capax.figures.theory.cover_curve import draw_curve
from capax.figures.theory.cover_slack import draw_slack, linear_stages

POINTS = np.random.default_rng(0).random((17, 2))


@pytest.mark.parametrize("dark", [False, True])
def test_the_warm_up_shows_the_corrected_numbers(dark):
    titles = [axes.get_title(loc="left") for axes in draw_warm_up(dark=dark).axes]
    assert titles == ["ε = 0.05:  N = 3", "ε = 0.45:  N = 2", "ε = 0.5:  N = 1"]


@pytest.mark.parametrize(
    "metric, shape", [("euclidean", Circle), ("manhattan", Polygon), ("chebyshev", Rectangle)]
)
def test_one_filled_ball_and_one_rim_per_centre(metric, shape):
    space = space_from_points(POINTS, metric)
    cover = covering_number(space, 0.3)
    patches = draw_cover(space, cover).axes[0].patches
    assert len(patches) == 2 * cover.upper
    assert all(isinstance(patch, shape) for patch in patches)


def test_points_on_a_line_can_be_drawn():
    space = space_from_points([0.0, 1.0, 1.5])
    assert draw_cover(space, covering_number(space, 0.5)).axes


def test_the_curve_passes_through_the_covering_numbers():
    space = space_from_points(POINTS)
    curve = covering_curve(space)
    line = draw_curve(space, curve, eps=0.3).axes[0].get_lines()[0]
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    for eps in (0.1, 0.3, 0.4):
        drawn = y[np.searchsorted(x, eps, side="right") - 1]
        assert drawn == covering_number(space, eps).exact


def test_an_unfinished_curve_shows_both_ends():
    space = space_from_points(POINTS)
    lines = draw_curve(space, covering_curve(space, time_limit=0), dark=True).axes[0].get_lines()
    assert len(lines) == 2


def test_a_single_point_has_a_curve():
    space = space_from_points([[1.0, 2.0]])
    assert draw_curve(space, covering_curve(space)).axes


def test_the_waterfall_only_grows():
    sizes = [stage.log_cover for stage in linear_stages(3, 2, 0.5, 1000)]
    assert sizes == sorted(sizes)
    dots = draw_slack(3, 2, 0.5, 1000).axes[0].get_lines()
    assert [float(np.asarray(dot.get_xdata())[0]) for dot in dots] == sizes


@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda s: draw_cover(s, covering_number(s, 1)), "plot: wanted points on a line or in"),
        (lambda _: draw_slack(1, 1, 0.9, 10), "eps: wanted a radius below ab/2 = 0.5, got 0.9"),
    ],
)
def test_what_cannot_be_drawn_is_said(draw, message):
    with pytest.raises(InputError, match=message):
        draw(space_from_distances([[0, 1], [1, 0]]))


def test_other_refusals():
    solid = space_from_points(np.zeros((2, 3)))
    angular = space_from_points([[1.0, 0.0], [0.0, 1.0]], "angular")
    for space, message in ((solid, "3 coordinates"), (angular, "a metric among euclidean")):
        with pytest.raises(InputError, match=message):
            draw_cover(space, covering_number(space, 1))
