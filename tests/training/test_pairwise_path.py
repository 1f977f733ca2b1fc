"""Two layers in the engine: the run that the model as written gives, with gradients in pieces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from capax.attention.transformer import Transformer, TransformerSpec, parameters
from capax.data.task import draw_task
from capax.identity import key_from
from capax.training import train
from capax.training.programs import memory
from capax.training.steps.paths import NaivePath, PairwisePath, path_for
from torch_transformer import TorchTransformer, cross_entropy

RATE, STEPS, ROWS = 0.3, 6, 19


@pytest.fixture
def trials(trial_of):
    """Gradient descent: Adam enlarges the last bit of a zero."""
    rule = {"name": "sgd", "lr": RATE, "momentum": 0.0}
    model = {"layers": 2, "layer_norm": False, "activation": "relu"}  # half as long to compile
    fields = {"steps": STEPS, "eval_every": 3, "optimiser": rule, "model": model}
    return [trial_of(m, m=m, task={"validation_size": 101}, **fields) for m in (5, ROWS)]


def trained_as_written(trial):
    """Gradient descent in PyTorch, float64."""
    start = key_from(trial.run(0).model_dump(mode="json"), "init")
    model, task = TorchTransformer(Transformer.init(trial.model, key=start)), draw_task(trial.task)
    descent = torch.optim.SGD(model.p.values(), lr=RATE)
    for _ in range(STEPS):
        descent.zero_grad()
        cross_entropy(model.logits(task.X_train), task.y_train).backward()
        descent.step()
    return model.p


def test_runs_are_those_of_the_model_as_written(trials, one_by_one):
    """In pieces of 8 examples, the last one filled up."""
    found = list(train(trials, hardware=one_by_one, max_m=ROWS, block=8, keep="final"))
    assert len(found) == len(trials)
    for result in found:
        run, wanted = result.runs[0], trained_as_written(result.spec)
        assert (run.path, run.reason, run.steps) == ("pairwise", None, STEPS)
        for name, a in parameters(run.parameters).items():
            b = wanted.pop(name).detach().numpy()
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6, err_msg=name)
        assert not wanted


def test_the_path_draws_and_keeps_the_model_as_written(trials):
    spec = trials[0].model
    ours, written = PairwisePath(spec), NaivePath(spec, "to compare")
    assert path_for(spec, "cpu") == ours
    assert path_for(spec, "gpu") == PairwisePath(spec, tensor_cores=True)
    for a, b in zip(
        *(jax.tree.leaves(path.init(jax.random.key(1))) for path in (ours, written)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_a_slot_takes_no_more_than_was_planned():
    T, rows = 157, 61
    path = PairwisePath(TransformerSpec(T=T, d=12, heads=3, mlp_width=48, layers=2))
    params = jax.eval_shape(path.init, jax.random.key(0))
    bits = jax.ShapeDtypeStruct((rows, T), jnp.uint8)
    loss = jax.grad(lambda params, bits: jnp.sum(path.logits(params, bits)))
    program = jax.jit(loss).lower(params, bits).compile()
    assert program.memory_analysis().temp_size_in_bytes < memory.slot_bytes(path, rows)
