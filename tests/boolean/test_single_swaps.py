"""Single swaps against the whole version space, and the bound against the truth."""

import itertools

import numpy as np
import pytest

from capax.boolean.best_possible.disagreement import union_sample_size
from capax.boolean.consistent.survivors import is_unique
from capax.boolean.parser import parse
from capax.boolean.traits.single_swaps import has_single_swap, most_unambiguous
from capax.data import feasible
from capax.data.feasible import smallest_m
from capax.data.task import TaskSpec

FUNCTIONS = ("and3", "or2", "parity3", "maj3", "x0 & (x1 | !x2)", "x0 | x1 & !x1")


def naive_swap(f, X):
    g = f.relevant()
    for i, j in itertools.product(range(g.s), range(X.shape[1])):
        if j not in f.support:
            moved = list(g.support)
            moved[i] = j
            if np.array_equal(g.on(moved)(X), g(X)):
                return True
    return False


@pytest.mark.parametrize("text", FUNCTIONS)
def test_against_every_move(text):
    rng = np.random.default_rng(5)
    f = parse(text)
    seen = set()
    for m in (1, 3, 7, 13, 23) * 8:
        placed = f.on(rng.choice(11, f.s, replace=False).tolist(), 11)
        X = (rng.random((m, 11)) < 0.7).astype(np.uint8)
        found = has_single_swap(placed, X)
        assert found == naive_swap(placed, X)
        assert not (found and is_unique(placed, X, placed(X)))  # a swap proves ambiguity
        seen.add(found)
    assert seen == {True, False}


@pytest.mark.parametrize(("text", "p"), [("and3", 0.79), ("parity2", 0.5), ("maj3", 0.5)])
def test_the_bound_is_above_the_share_of_unambiguous_samples(text, p):
    """100 samples: the share is within 4 standard errors of its mean, but for 1 in 10^4."""
    rng = np.random.default_rng(7)
    for T, m in ((7, 5), (29, 13), (29, 17)):
        f = parse(text)
        f = f.on(range(f.s), T)
        samples = ((rng.random((m, T)) < p).astype(np.uint8) for _ in range(100))
        share = np.mean([is_unique(f, X, f(X)) for X in samples])
        bound = most_unambiguous(f, T, m, p, key=(1, 2))
        assert share <= bound + 4 * np.sqrt(0.25 / 100)


def test_without_another_position_nothing_can_move():
    assert most_unambiguous(parse("and3").on((0, 1, 2), 3), 3, 1, 0.5, key=(1, 2)) == 1.0


@pytest.mark.parametrize("task", [{"T": 101}, {"T": 53, "function": "parity3", "p": 0.5}])
def test_the_smallest_m_is_where_drawing_begins_to_make_sense(task):
    least = smallest_m(TaskSpec(m=1, **task))

    def share(m):
        spec = TaskSpec(m=m, **task, max_tries=1)
        f = spec.target
        rng = np.random.default_rng(m)
        samples = (
            (rng.random((m, spec.T)) < spec.probability).astype(np.uint8) for _ in range(100)
        )
        return np.mean([is_unique(f, X, f(X)) for X in samples])

    assert share(least + 2) >= 0.02
    assert share(max(1, least - 3)) <= 0.1
    assert smallest_m(TaskSpec(m=1, **task, reject_ambiguous=False)) == 1


@pytest.mark.parametrize("function", ["and3", "maj5", "parity3"])
def test_what_is_too_large_to_be_looked_at_is_not_drawn(function, monkeypatch):
    """A million positions: no set is drawn, and m is one at which half of the sets are good."""

    def drawn(*_, **__):
        raise AssertionError("a training set was drawn")

    monkeypatch.setattr(feasible, "bernoulli_rows", drawn)
    task = TaskSpec(function=function, T=10**6 - 3, m=20)
    f = parse(function).on(range(parse(function).s), task.T)
    assert smallest_m(task) == union_sample_size(f, task.T, 0.5, task.probability)
