"""Specs and what surrounds the engine: rules, schedules, memory, progress, roofline."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from capax.attention.transformer import Transformer, TransformerSpec
from capax.errors import InfeasibleError, InputError
from capax.training import Hardware, OptimiserSpec, RunSpec
from capax.training.live_bar import live_bar, words
from capax.training.one_model import Trained
from capax.training.programs.memory import block_rows, num_parameters, plan, slot_bytes
from capax.training.programs.shape import padded_rows, program_of, with_rows
from capax.training.slots.crew import Tally
from capax.training.speed.roofline import Ceilings, best_of, least_seconds, step_bytes, step_flops
from capax.training.steps.objective import accuracy, cross_entropy
from capax.training.steps.optimiser import rule_of, transformation
from capax.training.steps.paths import CollapsedPath, NaivePath


def test_identity_follows_the_fields(trial_of):
    a, b = trial_of(0, restarts=3), trial_of(1, restarts=3)
    ids = {a.trial_id, b.trial_id, *(t.run(k).run_id for t in (a, b) for k in range(3))}
    assert len(ids) == 8
    assert RunSpec(**a.run(1).model_dump()).run_id == a.run(1).run_id


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 45}, "steps: wanted a multiple of eval_every"),
        ({"model": {"T": 12}}, "model.T: wanted task.T = 11"),
        ({"model": {"alphabet": 3}}, "model.alphabet: wanted task.alphabet = 2"),
        ({"task": {"validation_size": 0}}, "validation_size: wanted at least 1"),
        ({"optimiser": {"lr": 0.0}}, "lr:"),
        ({"optimiser": {"learning_rate": 0.1}}, "unknown field"),
    ],
)
def test_specs_that_make_no_sense_are_refused(trial_of, changes, words):
    with pytest.raises(InputError, match=words):
        trial_of(0, **changes)


def test_restart_numbers_are_checked(trial_of):
    with pytest.raises(InputError, match="restart"):
        trial_of(0, restarts=2).run(2)


@pytest.mark.parametrize("name", ["adamw", "adam", "sgd"])
def test_rules_are_those_of_optax(name):
    rule = OptimiserSpec(name=name, lr=0.1, weight_decay=0.03)
    ours = transformation(rule_of(rule), jnp.float32(0.1), jnp.float32(0.03), jnp.float32(7.0))
    theirs = {
        "adamw": optax.adamw(0.1, weight_decay=0.03),
        "adam": optax.adam(0.1),
        "sgd": optax.sgd(0.1, momentum=0.9),
    }[name]
    params = jnp.array([1.0, -2.0, 3.0], jnp.float32)
    a, b, x, y = ours.init(params), theirs.init(params), params, params
    with jax.numpy_dtype_promotion("standard"):
        for step in range(3):
            gradient = jnp.sin(x + step)
            change, a = ours.update(gradient, a, x)
            x = optax.apply_updates(x, change)
            change, b = theirs.update(jnp.sin(y + step), b, y)
            y = optax.apply_updates(y, change)
    np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_schedules(schedule):
    """lr f(count) with warm-up, read off plain SGD steps on a gradient of one."""
    rule = OptimiserSpec(name="sgd", momentum=0.0, schedule=schedule, warmup=2)
    ours = transformation(rule, jnp.float32(0.5), 0.0, jnp.float32(10.0))
    params = jnp.zeros((), jnp.float32)
    state, rates = ours.init(params), []
    with jax.numpy_dtype_promotion("standard"):
        for _ in range(10):
            change, state = ours.update(jnp.ones((), jnp.float32), state, params)
            rates.append(-float(change))
    part = np.clip((np.arange(10) - 2) / 8, 0, 1)
    fade = {"constant": 1 + 0 * part, "linear": 1 - part, "cosine": (1 + np.cos(np.pi * part)) / 2}
    warm = np.minimum(1, (np.arange(10) + 1) / 2)
    np.testing.assert_allclose(rates, 0.5 * warm * fade[schedule], rtol=1e-5)


def test_masked_objective():
    z, y = jnp.array([2.0, -1.0, 50.0]), jnp.array([1.0, 1.0, 0.0])
    mask = jnp.array([1.0, 1.0, 0.0])
    wanted = np.mean([np.log1p(np.exp(-2.0)), np.log1p(np.exp(1.0))])
    assert float(cross_entropy(z, y, mask)) == pytest.approx(wanted)
    assert float(accuracy(z, y, mask)) == 0.5


def test_parameters_are_counted_as_they_are():
    spec = TransformerSpec(T=11, d=6, heads=3, mlp_width=7)
    model = Transformer.init(spec, key=jax.random.key(0))
    assert num_parameters(spec) == sum(x.size for x in jax.tree.leaves(model))


def test_memory_grows_with_what_it_should():
    small, long = CollapsedPath(TransformerSpec(T=300)), CollapsedPath(TransformerSpec(T=100_000))
    assert slot_bytes(long, 60) > 100 * slot_bytes(small, 60)
    assert slot_bytes(NaivePath(small.spec, "to compare"), 60) > slot_bytes(small, 60)
    assert block_rows(small) == 1024
    assert block_rows(long) * 200_000 * 4 <= 1 << 25
    on_gpu = replace(long, tensor_cores=True)
    assert 4 * block_rows(long) < block_rows(on_gpu) <= (1 << 28) // (200_000 * 4)
    half = Hardware(workers=1, slots=64, memory_bytes=40 * slot_bytes(small, 60))
    assert 1 <= plan(small, 60, 100, half).slots < 40
    with pytest.raises(InfeasibleError, match="T = 100000"):
        plan(long, 60, 10_000, Hardware(workers=1, memory_bytes=1 << 28))


def test_rows_are_padded_and_grow(trial_of):
    program = program_of(trial_of(0, m=23), Hardware(workers=1))
    assert program.rows == 24
    assert with_rows(program, 24) is program
    assert with_rows(program, 33).rows == 48
    assert padded_rows(trial_of(0, mode="online", batch_size=19), 100, "gpu") == 19


def test_roofline_counts():
    """Counted by hand at T = 3, d = 4, H = 2, n = 5, m = 7."""
    spec = TransformerSpec(T=3, d=4, heads=2, mlp_width=5)
    products = 3 * 2 * 3 * 4 * 6 + 2 * 2 * 7 * 6 * 6 + 3 * 2 * 7 * (16 + 40)
    assert step_flops(spec, 7) == products
    assert step_bytes(spec) == 32 * num_parameters(spec)
    slow_memory = Ceilings(1e30, 2.0)
    assert least_seconds(spec, 7, slow_memory) == step_bytes(spec) / 2
    assert least_seconds(spec, 7, Ceilings(2.0, 1e30)) == products / 2
    assert best_of(lambda: None, 0.0) >= 0.0


def test_progress_is_quiet_without_a_terminal(capsys):
    tally = Tally(5, 3, 2, 4, 900, 3.0)
    with live_bar(10) as bar:
        bar(tally)
    assert capsys.readouterr().out == ""
    assert words(tally) == "5 runs, 3 solved, 2 running, 300 steps/s"


def test_the_accuracy_of_a_model_comes_from_an_evaluation_of_all_rows_only(monkeypatch):
    """Its last one; with fewer rows the model answers again, which compiles a program."""
    right = np.array([1, 0, 1, 1], np.uint8)
    monkeypatch.setattr(Trained, "predict", lambda *_: 1 - right)
    for rows, shown in ((4, 0.75), (3, 0.0)):
        evals = {"step": [10, 20], "validation_rows": [4, rows], "validation_accuracy": [1.0, 0.75]}
        monkeypatch.setattr(Trained, "run", SimpleNamespace(evals=evals))
        trained = object.__new__(Trained)
        vars(trained)["task"] = SimpleNamespace(X_validation=right[:, None], y_validation=right)
        assert trained.accuracy == shown
