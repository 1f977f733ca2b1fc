"""Mixed parity: learners whose answer is known, and a sample that does not give it away."""

from itertools import combinations

import jax
import numpy as np
import pytest

from capax.attention.transformer import Transformer, TransformerSpec
from capax.cards.answers import mixed
from capax.cards.answers.mixed import fresh_inputs, mixed_row, mixed_task, taken
from capax.cards.protocol.plan import Plan
from capax.data.task import TaskSpec, draw_training
from capax.learners.names import entry_of
from capax.learners.zoo.mlp import MLP
from capax.training import TrialSpec, train
from torch_transformer import TorchTransformer

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
    sample, rules, fresh = task.training(), task.rules(), fresh_inputs(11)
    assert (parity(sample.X) == sample.y).all()
    assert (pair_finder(sample.X, sample.y)(fresh) == rules["sparse"]).all()
    assert 0.4 < np.mean(rules["sparse"] == rules["dense"]) < 0.6
    assert 0.4 < np.mean(sample.y) < 0.6
    assert (np.abs(sample.X.mean(axis=0) - 0.5) < 0.1).all()  # no single bit tells
    assert taken(rules["dense"], task) == "dense"
    other = mixed_task(11, 500, seed=4)
    assert not np.array_equal(other.training().X, sample.X)
    plain = TaskSpec(**{k: v for k, v in task.model_dump().items() if k != "sample"})
    assert draw_training(plain).X.shape == sample.X.shape
    trial = {"model": MLP(T=11), "steps": 10, "eval_every": 10}
    assert TrialSpec(task=task, **trial).trial_id != TrialSpec(task=plain, **trial).trial_id


def test_each_is_found_to_take_what_it_takes():
    learners = ((pair_finder, "sparse"), (whole_parity, "dense"), (guesser, "neither"))
    for learner, answer in (*learners, (raising, "neither")):
        row = mixed_row(PLAN, entry_of(learner), 11)
        assert getattr(row, answer) == 1.0, row
        assert row.sparse + row.dense + row.neither == 1.0
        assert row.rate is None


def test_an_architecture_is_trained_for_it_by_the_engine(monkeypatch):
    """What the kept model answers is right as often as the engine said at its last look."""
    ended = []

    def noted(specs, **settings):
        ended.extend(train(specs, **settings))
        return ended

    monkeypatch.setattr("capax.training.train", noted)
    plan = PLAN.model_copy(update={"T": (5,), "m_high": 64, "steps": 60, "eval_every": 20})
    task = mixed_task(5, 64, seed=1)
    (answers,) = mixed._answers(plan, entry_of("mlp"), [task], 1e-2)
    looks = ended[0].runs[-1].evals
    seen = int(looks["validation_rows"][-1])
    right = np.mean(answers[:seen] == task.rules()["sparse"][:seen])
    assert right == pytest.approx(looks["validation_accuracy"][-1], abs=1e-6)
    row = mixed_row(plan, entry_of("mlp"), 5, trials=1)
    assert row.sparse + row.dense + row.neither == 1.0
    assert row.rate == 1e-2


def test_a_transformer_answers_example_by_example():
    spec = TransformerSpec(T=3, d=4, heads=2, mlp_width=5)
    model = Transformer.init(spec, key=jax.random.key(3))
    X = fresh_inputs(3)[:7]
    wanted = TorchTransformer(model).logits(X) > 0
    assert mixed._labels(spec, model, X).tolist() == wanted.tolist()
