"""Labels keep their distance and move no more than needed."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from capax.figures.labels import EndLabel, grouped, label_line_ends, spread, tick_at


@given(st.lists(st.floats(-100, 100), max_size=9), st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_spread_keeps_the_distance_and_is_the_closest_such_choice(positions, spacing, seed):
    wanted = np.sort(np.array(positions, dtype=float))
    chosen = spread(wanted, spacing)
    assert np.all(np.diff(chosen) >= spacing - 1e-6)
    # any other admissible choice is at least as far from what was wanted
    gaps = spacing + np.random.default_rng(seed).exponential(spacing, size=(20, wanted.size))
    rivals = np.cumsum(gaps, axis=1)
    if wanted.size:
        rivals += (wanted - rivals).mean(axis=1, keepdims=True)
        cost = np.sum((chosen - wanted) ** 2)
        assert np.all(np.sum((rivals - wanted) ** 2, axis=1) >= cost - 1e-6)


def test_labels_far_apart_stay_at_the_ends_of_their_lines():
    figure = Figure()
    axes = figure.subplots()
    axes.set(xlim=(1, 100), ylim=(0, 1), xscale="log")
    label_line_ends(axes, [EndLabel(0.75, "upper", "black"), EndLabel(0.25, "lower", "black")])
    heights = {text.get_text(): text.xy[1] for text in axes.texts}
    assert np.isclose(heights["lower"], 0.25) and np.isclose(heights["upper"], 0.75)


def test_a_label_of_two_lines_has_room_for_both():
    figure = Figure()
    axes = figure.subplots()
    texts = ["one", "two\nlines", "another"]
    label_line_ends(axes, [EndLabel(0.5, text, "black") for text in texts])
    boxes = [text.get_window_extent() for text in axes.texts]
    assert all(low.y1 < high.y0 for low, high in pairwise(boxes))


def test_no_labels_draw_nothing():
    axes = Figure().subplots()
    label_line_ends(axes, [])
    assert not axes.texts


def test_ticks_stand_at_measured_values_and_never_collide():
    axes = Figure().subplots()
    axes.set_xscale("log")
    axes.set_xlim(10, 1000)
    tick_at(axes, [10, 100, 990, 1000])
    assert list(axes.get_xticks()) == [10, 100, 1000]


def test_numbers_are_grouped_from_five_digits_on():
    assert grouped(800) == "800"
    assert grouped(9999) == "9999"
    assert grouped(100000) == "100\u2009000"
