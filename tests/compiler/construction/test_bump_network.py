"""Lemmas B.5, B.6 and B.8: values around separated points, widths, norms, planted faults."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capax.compiler.paper.bump_network import (
    BumpNetwork,
    bump_network,
    injective_network,
    symmetric_network,
)
from capax.errors import InputError


@st.composite
def separated(draw):
    """Points on a grid of step 4 delta, their values, delta, and moves of up to delta."""
    n, p = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    delta = draw(st.sampled_from([0.01, 0.125, 0.3, 1.0]))
    cells = draw(
        st.lists(st.tuples(*[st.integers(-3, 3)] * p), min_size=n, max_size=n, unique=True)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    moves = rng.uniform(-1, 1, (n, p)) * draw(st.sampled_from([0.0, 0.5, 1.0]))
    return np.array(cells) * 4.0 * delta, rng.normal(size=n), delta, delta * moves


@given(separated())
def test_values_around_separated_points(drawn):
    points, values, delta, moves = drawn
    network = bump_network(points, values, delta)
    size = 1 + np.abs(values).max() / delta**2
    assert np.abs(network(points + moves) - values).max() <= 1e-11 * size
    n, p = points.shape
    assert network.widths == (4 * n * p, 2 * n) and network.within_limits()
    far = network(points[:1] + 100.0 * delta * np.ones(p))
    assert np.abs(far).max() <= 1e-11 * size


def test_planted_faults_are_seen():
    points, values = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([2.0, 5.0])
    good = bump_network(points, values, 0.25)
    edge = points + 0.25
    assert np.allclose(good(edge), values)
    odd = bump_network(points, values, 0.25, printed=True)
    assert np.allclose(odd(points), 0.0)
    for shift in (0.5, -0.5):  # a bump that is half a step narrower or wider on one side
        W_1 = good.W_1.copy()
        W_1[-1, :4] += shift
        broken = BumpNetwork(W_1, good.W_2, good.w, good.limits)
        around = np.concatenate([edge, points - 0.25])
        assert np.abs(broken(around) - np.tile(values, 2)).max() > 0.1
    with pytest.raises(InputError, match="delta: wanted a number in"):
        bump_network(points * 8, values, 2.0)
    with pytest.raises(InputError, match=r"points: wanted points 1\.2 apart"):
        bump_network(points, values, 0.3)


@pytest.mark.parametrize("s", [1, 2, 3, 5])
@pytest.mark.parametrize("B", [0.5, 1.0, 3.0])
def test_networks_have_the_printed_widths_and_norms(s, B):
    values = np.linspace(-2, 1, s + 1)
    network = symmetric_network(np.linspace(-B, B, s + 1), values, min(2 * B / s, 4.0))
    assert network.widths == (4 * (s + 1), 2 * (s + 1)) and network.within_limits()
    corners = np.array(np.meshgrid(*[[-B, B]] * s)).reshape(s, -1).T
    general = injective_network(corners, np.arange(2.0**s), min(2 * B, 4.0))
    assert general.widths == (4 * s * 2**s, 2 * 2**s) and general.within_limits()
    tight = BumpNetwork(general.W_1, general.W_2, general.w, {"W_1": 0.0, "W_2": 1e9, "w": 1e9})
    assert not tight.within_limits()


@given(st.floats(-1, 1))
def test_an_error_of_a_quarter_is_forgiven(move):
    heights, values, gamma = np.array([-1.0, -0.2, 0.6]), np.array([3.0, -1.0, 2.0]), 0.8
    network = symmetric_network(heights, values, gamma)
    assert np.allclose(network(heights[:, None] + move * gamma / 4), values, atol=1e-9)
    corners = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])
    general = injective_network(corners, np.arange(4.0), 1.0)
    assert np.allclose(general(corners + move / 4), np.arange(4.0), atol=1e-9)
