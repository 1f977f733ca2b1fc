"""Two layers in the engine: the run that the model as written gives, lane by lane and together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.training import compiled, memory, paths, train
from capax.training.paths import NaivePath, PairwisePath, path_for

SGD = {"name": "sgd", "lr": 0.3}  # Adam enlarges the last bit of a zero


@pytest.fixture
def trials(trial_of):
    fields = {"steps": 6, "eval_every": 3, "optimiser": SGD, "model": {"layers": 2}}
    return [trial_of(m, m=m, **fields) for m in (5, 19, 11)]


def test_runs_are_those_of_the_model_as_written(trials, one_by_one, four_slots, monkeypatch):
    """In pieces with lanes together, as on a GPU, against whole gradients one by one."""
    monkeypatch.setattr(paths.pairwise, "why_not", lambda spec: "to compare")
    wanted = {r.trial_id: r for r in train(trials, hardware=one_by_one, max_m=19)}
    monkeypatch.undo()
    monkeypatch.setattr(compiled._Compiler, "_each", lambda _, function: jax.vmap(function))
    found = list(train(trials, hardware=four_slots, max_m=19, block=8))
    for result in found:
        run, written = result.runs[0], wanted[result.trial_id].runs[0]
        assert (run.path, written.path, written.reason) == ("pairwise", "naive", "to compare")
        for name, values in run.evals.items():
            np.testing.assert_allclose(values, written.evals[name], rtol=1e-4, atol=1e-5)
    assert len(found) == 3


def test_the_path_draws_and_keeps_the_model_as_written(trials):
    spec = trials[0].model
    ours, written = PairwisePath(spec), NaivePath(spec, "to compare")
    assert path_for(spec, "cpu") == ours
    assert path_for(spec, "gpu") == PairwisePath(spec, tensor_cores=True)
    for a, b in zip(
        *(jax.tree.leaves(path.init(jax.random.key(1))) for path in (ours, written)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("T", "rows"), [(53, 67), (157, 13)])
def test_a_slot_takes_no_more_than_was_planned(trials, T, rows):
    path = PairwisePath(trials[0].model.model_copy(update={"T": T, "d": 12, "mlp_width": 48}))
    params = jax.eval_shape(path.init, jax.random.key(0))
    bits = jax.ShapeDtypeStruct((rows, T), jnp.uint8)
    loss = jax.grad(lambda params, bits: jnp.sum(path.logits(params, bits)))
    program = jax.jit(loss).lower(params, bits).compile()
    assert program.memory_analysis().temp_size_in_bytes < memory.slot_bytes(path, rows)
