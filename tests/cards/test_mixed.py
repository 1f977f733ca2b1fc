"""Mixed parity: learners whose answer is known, and a sample that does not give it away."""

from itertools import combinations

import numpy as np

from capax.cards.answers.mixed import mixed_row, mixed_task, taken
from capax.cards.protocol.plan import Plan
from capax.learners.names import entry_of

PLAN = Plan(T=(11,), m_high=128, steps=200, eval_every=100, rates=(1e-2,))


def parity(bits):
    return bits.sum(axis=1) % 2


def pair_finder(X, y):
    """The pair whose parity the sample does not refute."""
    pairs = combinations(range(X.shape[1]), 2)
    found = next(list(p) for p in pairs if (parity(X[:, list(p)]) == y).all())
    return lambda inputs: parity(inputs[:, found])


def whole_parity(X, y):
    del X, y
    return parity


def guesser(X, y):
    del X, y
    return lambda inputs: np.zeros(len(inputs), int)


def raising(X, y):
    del X, y
    raise ValueError("no")


def test_the_sample_cannot_tell_and_fresh_inputs_can():
    task = mixed_task(11, 500, seed=3)
    assert (parity(task.X) == task.y).all()
    assert (pair_finder(task.X, task.y)(task.fresh) == task.sparse).all()
    assert 0.4 < np.mean(task.sparse == task.dense) < 0.6
    assert 0.4 < np.mean(task.y) < 0.6
    assert (np.abs(task.X.mean(axis=0) - 0.5) < 0.1).all()  # no single bit tells
    assert taken(task.dense, task) == "dense"
    assert not np.array_equal(mixed_task(11, 500, seed=4).X, task.X)


def test_each_is_found_to_take_what_it_takes():
    learners = ((pair_finder, "sparse"), (whole_parity, "dense"), (guesser, "neither"))
    for learner, answer in (*learners, (raising, "neither")):
        row = mixed_row(PLAN, entry_of(learner), 11)
        assert getattr(row, answer) == 1.0, row
        assert row.sparse + row.dense + row.neither == 1.0
        assert row.rate is None


def test_an_architecture_is_trained_for_it():
    """At T = 5 an MLP fits both rules' common part; it takes one of three answers, with a rate."""
    row = mixed_row(PLAN.model_copy(update={"T": (5,)}), entry_of("mlp"), 5, trials=1)
    assert row.sparse + row.dense + row.neither == 1.0
    assert row.rate == 1e-2
