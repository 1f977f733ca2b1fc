"""Glances at long inputs: what is drawn stays the same, and hopeless sets are not drawn at all."""

import numpy as np
import pytest

from capax.boolean import parse
from capax.boolean.random_functions import WordStream, words_at
from capax.boolean.traits.single_swaps import has_single_swap
from capax.data import TaskSpec, bernoulli_rows, draw_training
from capax.data.distributions import bernoulli_at, bernoulli_stretch
from capax.data.glance import without_seen_rival
from capax.errors import InfeasibleError


@pytest.mark.parametrize("stream", [0, 5, 2**40])
def test_words_drawn_alone_are_those_of_the_stream(stream):
    words = WordStream(key=(3, 2**32 - 1), stream=stream).next(2000)
    places = np.array([[0, 1, 2, 7], [8, 9, 1999, 1234]])
    assert np.array_equal(words_at(places, key=(3, 2**32 - 1), stream=stream), words[places])
    far = 2**61 + 8  # 3 000 000 000 rows of 10^9 bits
    stretch = WordStream(key=(3, 4), stream=stream, start=far).next(3)
    assert np.array_equal(words_at(far + np.arange(3), key=(3, 4), stream=stream), stretch)


def test_bits_drawn_alone_are_those_of_the_rows():
    rows = bernoulli_rows(5, 97, 0.3, key=(1, 2), stream=4)
    places = np.array([3 * 97 + 90, 3, 4 * 97 + 96])
    assert np.array_equal(bernoulli_at(places, 0.3, key=(1, 2), stream=4), rows.flat[places])
    alone = bernoulli_stretch(2 * 97 + 3, 29, 0.3, key=(1, 2), stream=4)
    assert np.array_equal(alone, rows[2, 3:32])


@pytest.mark.parametrize(
    ("function", "m", "p"),
    [("and3", 46, 0.6), ("maj3", 34, 0.6), ("x0 | ~x1", 40, 0.3), ("parity2", 20, 0.5)],
)
@pytest.mark.parametrize("columns", [29, 10**9])
def test_a_glance_at_long_inputs_changes_no_draw(function, m, p, columns, monkeypatch):
    spec = TaskSpec(function=function, T=211, m=m, p=p, validation_size=0, seed=3)
    whole = draw_training(spec)
    monkeypatch.setattr("capax.data.glance.SHORT", 17)
    monkeypatch.setattr("capax.data.glance._WIDEST", columns)
    glanced = draw_training(spec)
    assert whole.rejections == glanced.rejections and whole.support == glanced.support
    np.testing.assert_array_equal(whole.X, glanced.X)


@pytest.mark.parametrize(
    ("function", "m", "p"),
    [("and2", 12, 0.7), ("and3", 30, 0.8), ("maj3", 12, 0.4), ("x0 | ~x1", 16, 0.3),
     ("x0 ^ (x1 & 0)", 10, 0.5), ("and2", 3, 1e-12), ("or2", 3, 1 - 1e-12)],
)  # fmt: skip
def test_sets_left_out_have_a_rival_and_the_others_have_none(function, m, p, monkeypatch):
    """Every set drawn whole, and all its columns compared: the glance must say the same."""
    T, key, tries = 2003, (5, 6), 60
    f = parse(function)
    f = f.on(range(7, 7 + 3 * f.s, 3), T)
    monkeypatch.setattr("capax.data.glance._UNLIKELY", -np.inf)  # look, however unlikely
    named = list(without_seen_rival(f, T, m, p, tries, key=key))
    sets = (bernoulli_rows(m, T, p, key=key, stream=stream) for stream in range(tries))
    assert named == [stream for stream, X in enumerate(sets) if not has_single_swap(f, X)]


def test_a_million_hopeless_bits_are_not_drawn(monkeypatch):
    """A thousand sets, each of 20 million bits: none of them is drawn whole, and few in part."""
    drawn = []

    def counted(start, size, p, **which):
        drawn.append(size)
        return bernoulli_stretch(start, size, p, **which)

    monkeypatch.setattr("capax.data.task.bernoulli_rows", None)
    monkeypatch.setattr("capax.data.glance.bernoulli_stretch", counted)
    with pytest.raises(InfeasibleError, match="1000 training sets of m = 20"):
        draw_training(TaskSpec(function="and2", T=10**6, m=20, support="formula"))
    assert sum(drawn) < 10**8


def test_what_no_memory_holds_is_refused_before_a_glance(monkeypatch):
    monkeypatch.setattr("capax.data.task.without_seen_rival", None)
    with pytest.raises(InfeasibleError, match="T: 500000 inputs of length 2147483647"):
        draw_training(TaskSpec(function="and2", T=2**31 - 1, m=500_000))
