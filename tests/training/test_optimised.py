"""What users run is optimised by XLA; the programs of all other tests are not (conftest.py).

One process with XLA's own settings trains a network and certifies a compiled one. Both are held
against NumPy: the training loop written out in float64, the outputs in extended precision.
"""

import json
import sys
from math import erf

import jax
import numpy as np
from extended_forward import extended_outputs
from naive_head import all_inputs

import capax
from capax.capacity.routes.certifying import certify_margins
from capax.capacity.weights.model_bounds import measure
from capax.data.task import TaskSpec, draw_task
from capax.identity import key_from
from capax.learners.names import entry_of
from capax.training import Hardware, OptimiserSpec, TrialSpec, train

T, STEPS, LOOK, RATE = 5, 20, 5, 1e-2
FORMULA = "x1 & ~x4"


def trial():
    return TrialSpec(
        task=TaskSpec(T=T, m=13, validation_size=31, reject_ambiguous=False),
        model=entry_of("mlp").spec(T=T, width=3),
        optimiser=OptimiserSpec(lr=RATE),
        steps=STEPS,
        eval_every=LOOK,
        restarts=1,
    )


# XLA reads its flags when it starts, which it has not in a process of the server of commands.
PROCESS = f"""
import os, sys
del os.environ["XLA_FLAGS"]
sys.path += {sys.path}
from test_optimised import optimised
optimised()
"""


def optimised() -> None:
    """In a process of its own: print what the programs computed."""
    hardware = Hardware(workers=1, use_cache=False)
    (result,) = train([trial()], hardware=hardware, keep="final", early_exit=False)
    run, inputs = result.runs[0], all_inputs(7)
    compiled = capax.compile(FORMULA, 7)
    found = capax.certify(compiled.model, inputs, capax.parse(FORMULA, 7)(inputs))
    told = {
        "losses": run.evals["loss"].tolist(),
        "parameters": {name: np.asarray(p).tolist() for name, p in run.parameters.items()},
        "bounds": [entry.value for entry in found.entries],
        "margins": [entry.norms["margin"] for entry in found.entries],
    }
    print(json.dumps(told))


def gelu_and_slope(x):
    Phi = 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))
    return x * Phi, Phi + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)


def forward_and_back(p, x, y):
    """Loss and gradient of w . gelu(W_2 gelu(W_1 x + b_1) + b_2) + b, written out."""
    h_1, slope_1 = gelu_and_slope(x @ p["W_1"] + p["b_1"])
    h_2, slope_2 = gelu_and_slope(h_1 @ p["W_2"] + p["b_2"])
    z = h_2 @ p["w"] + p["b"]
    d = (1 / (1 + np.exp(-z)) - y) / len(y)
    d_2 = d[:, None] * p["w"] * slope_2
    d_1 = d_2 @ p["W_2"].T * slope_1
    loss = np.mean(np.logaddexp(0, z) - y * z)
    return loss, {"W_1": x.T @ d_1, "b_1": d_1.sum(0), "W_2": h_1.T @ d_2, "b_2": d_2.sum(0),
                  "w": h_2.T @ d, "b": d.sum()}  # fmt: skip


def trained_by_hand(run):
    """AdamW in float64 from the run's own start: losses at its evaluations, final parameters."""
    task, start = draw_task(run.task), key_from(run.model_dump(mode="json"), "init")
    p = {name: np.asarray(a, np.float64) for name, a in jax.jit(run.model.init)(start).items()}
    first, second = ({name: np.zeros_like(a) for name, a in p.items()} for _ in range(2))
    x, y, losses = 2.0 * task.X_train - 1.0, task.y_train, []
    for t in range(1, run.steps + 1):
        _, gradient = forward_and_back(p, x, y)
        for name, g in gradient.items():
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.999 * second[name] + 0.001 * g**2
            root = np.sqrt(second[name] / (1 - 0.999**t)) + 1e-8
            step = first[name] / (1 - 0.9**t) / root + run.optimiser.weight_decay * p[name]
            p[name] = p[name] - run.optimiser.lr * step
        if t % run.eval_every == 0:
            losses.append(forward_and_back(p, x, y)[0])
    return losses, p


def test_optimised_programs_train_and_certify_as_numpy_does(warm_commands, tmp_path):
    """float32 over 20 steps: losses to 1e-5. Margins less their rounding: bounds to 1e-9."""
    done = warm_commands.python(PROCESS, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    losses, parameters = trained_by_hand(trial().run(0))
    assert losses[-1] < 0.95 * losses[0]
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-5)
    for name, value in parameters.items():
        np.testing.assert_allclose(found["parameters"][name], value, atol=1e-4, err_msg=name)

    compiled, inputs = capax.compile(FORMULA, 7), all_inputs(7)
    outputs, doubt = extended_outputs(compiled.model)
    margins = (2 * capax.parse(FORMULA, 7)(inputs) - 1.0) * outputs
    assert doubt < 1e-12
    wanted = certify_margins(measure(compiled.model), margins.astype(np.float64))
    exact = [entry.norms["margin"] for entry in wanted.entries]
    np.testing.assert_allclose(found["margins"], exact, rtol=1e-9)
    np.testing.assert_allclose(found["bounds"], [e.value for e in wanted.entries], rtol=1e-9)
