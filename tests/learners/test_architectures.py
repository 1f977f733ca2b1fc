"""Architectures of the zoo against their definitions, in the engine, and their sizes."""

import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.capacity.network.field_bounds import mlp_bound
from capax.data.task import TaskSpec, draw_task
from capax.errors import InputError
from capax.learners.factories import FromFactory, remember
from capax.learners.names import entry_of
from capax.learners.zoo.cnn import CNN
from capax.learners.zoo.frame import tokens
from capax.learners.zoo.linear_attention import LinearAttention, feature
from capax.learners.zoo.mlp import MLP
from capax.learners.zoo.ssm import last_state
from capax.training import Hardware, OptimiserSpec, TrialSpec, train
from capax.training.specs.architecture import num_parameters
from capax.training.steps.objective import cross_entropy

m, T, c = 7, 11, 3
SMALL = {"d": 6, "mlp_width": 7}
SIZES = {
    "linear_attention": {**SMALL, "heads": 3},
    "deep_sets": SMALL,
    "mlp": {"width": 13},
    "cnn": {**SMALL, "channels": 5, "kernel": 3},
    "lstm": {**SMALL, "hidden": 5},
    "gru": {**SMALL, "hidden": 5},
    "ssm": {**SMALL, "states": 2},
    "mixer": {**SMALL, "position_width": 5, "channel_width": 11},
}


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_a_mixer_on_a_cpu_copies_no_array_of_all_positions_in_its_loops():
    """A loop that copies them at every position gives the same numbers, five times as slowly."""
    spec = entry_of("mixer").spec(T=11, **SIZES["mixer"])
    shapes = jax.eval_shape(spec.init, jax.random.key(0))
    slopes = jax.jit(jax.grad(lambda p, bits: jnp.sum(spec.cpu_logits(p, bits))))
    program = slopes.lower(shapes, jnp.zeros((m, 11), jnp.float32)).compile().as_text()
    loops = re.findall(r"\n%[^\n]*arg_tuple[^\n]*-> \([^\n]*\{\n.*?\n\}", program, re.S)
    whole = rf"f\d+\[11,\d+,{m}\]"
    assert sum(bool(re.search(whole, loop)) for loop in loops) == 2  # forward and backward
    assert not any(re.search(whole + r"\S* copy\(", loop) for loop in loops)


def test_the_closed_form_of_the_last_state_is_the_recurrence():
    step = np.exp(drawn(m, T, c))
    drive, A = drawn(m, T, c, 2, seed=4), -np.exp(drawn(c, 2, seed=5))
    state = np.zeros((m, c, 2))
    for t in range(T):
        state = np.exp(step[:, t, :, None] * A) * state + drive[:, t]
    ours = jax.jit(last_state)(step, drive, A)
    np.testing.assert_allclose(ours, state, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "T"), [("cnn", 1), ("cnn", 11), ("lstm", 11), ("ssm", 11), ("mixer", 11)]
)
def test_the_form_for_a_cpu_is_the_architecture_itself(name, T):
    """Logits and all gradients in float64, weights of size 1: nothing is small enough to hide."""
    spec = entry_of(name).spec(T=T, **SIZES[name])
    shapes = jax.eval_shape(spec.init, jax.random.key(0))
    params = {k: jnp.asarray(drawn(*x.shape, seed=i)) for i, (k, x) in enumerate(shapes.items())}
    bits = jnp.asarray(np.random.default_rng(6).integers(0, 2, (m, T)), jnp.float64)
    weights = drawn(m, seed=7)

    def both(f):
        def weighted(p):
            z = f(p, bits)
            return jnp.vdot(weights, z), z

        return jax.value_and_grad(weighted, has_aux=True)

    written = jax.jit(both(spec.logits))
    (value, logits), slopes = written(params)
    # logits without a gradient may be computed otherwise
    (*ours, alone) = jax.jit(lambda p: (*both(spec.cpu_logits)(p), spec.cpu_logits(p, bits)))(
        params
    )
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10),
        [(value, logits), slopes, logits],
        [*ours, alone],
    )
    np.testing.assert_allclose(weights @ np.asarray(logits), value, rtol=1e-10)
    if T > 1:  # every array has a slope, and it leads downwards
        assert all(np.asarray(g).any() for g in slopes.values())
        size = sum(float((np.asarray(g) ** 2).sum()) for g in slopes.values())
        step = np.float64(1e-7)
        moved = {k: np.asarray(p) - step * np.asarray(slopes[k]) for k, p in params.items()}
        fall = float(value) - float(written(moved)[0][0])
        assert fall == pytest.approx(step * size, rel=1e-3)
    assert num_parameters(spec) == sum(x.size for x in shapes.values())


def test_arrays_start_at_their_stated_sizes():
    """1/sqrt(fan-in) where that is customary, PyTorch's variance 1/(3 n) for recurrent weights,
    `init_scale` for the rest; the steps of the state-space layer at 1/T."""
    small = {"d": 9, "mlp_width": 7}
    sizes = {
        ("mixer", "V_1"): 1 / 5, ("mixer", "V_2"): 1 / 4, ("mixer", "U_1"): 1 / 3,
        ("mixer", "U_2"): 1 / 6, ("mixer", "W_O"): 0.02, ("cnn", "W_1"): 27**-0.5,
        ("cnn", "W_2"): 63**-0.5, ("cnn", "embed"): 0.02, ("lstm", "W_x"): 1 / 6,
        ("lstm", "W_h"): 1 / 6, ("lstm", "W_O"): 0.02, ("gru", "W_x"): 1 / 6,
        ("gru", "W_h"): 1 / 6, ("gru", "W_O"): 0.02, ("ssm", "W_B"): 1 / 3,
        ("ssm", "W_D"): 0.02,
    }  # fmt: skip
    own = {
        "mixer": {"position_width": 16, "channel_width": 36}, "cnn": {"channels": 21, "kernel": 3},
        "lstm": {"hidden": 12}, "gru": {"hidden": 12}, "ssm": {"states": 2},
    }  # fmt: skip
    for (name, array), size in sizes.items():
        spec = entry_of(name).spec(T=25, **small, **own[name])
        assert spec.deviation(array) == pytest.approx(size, rel=1e-12), (name, array)
    spec = entry_of("ssm").spec(T=25, **small, states=3)
    params = jax.jit(spec.init)(jax.random.key(0))
    np.testing.assert_allclose(np.logaddexp(0, np.asarray(params["b_D"])), 1 / 25, rtol=1e-6)
    np.testing.assert_allclose(np.exp(params["log_A"][4]), [1, 2, 3], rtol=1e-6)
    params = jax.jit(entry_of("mlp").spec(T=400, width=64).init)(jax.random.key(0))
    for array, size in {"W_1": 1 / 20, "W_2": 1 / 8, "w": 1 / 8}.items():
        assert np.std(params[array]) == pytest.approx(size, rel=0.25 if array == "w" else 0.05)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="kernel: wanted an odd number, got 4"):
        CNN(T=5, kernel=4)
    with pytest.raises(InputError, match="heads: wanted a divisor of d = 6, got 4"):
        LinearAttention(T=5, d=6, heads=4)


def test_the_memory_of_an_example_counts_everything_it_computes():
    """A plan for lanes: too little would end in an allocation that fails."""
    assert entry_of("mlp").spec(T=11, width=13).floats_per_example == 2 * 11 + 8 * 13
    lstm, wide = (
        entry_of("lstm").spec(T=4, d=64, mlp_width=128, hidden=hidden) for hidden in (1, 101)
    )
    per_unit = (wide.floats_per_example - lstm.floats_per_example) / 100
    assert per_unit >= 7 * 4  # four gates, both states and tanh(c), of every token
    assert lstm.floats_per_answer >= 4 + 64 + 2 * 128 + 6  # read-out before and after gelu

    class Doubled(eqx.Module):
        w: jax.Array

        def __call__(self, x):
            return jnp.sum(jnp.tanh(x) * self.w)

    token = remember(lambda T, key: Doubled(jnp.ones(T, jnp.float32)), "doubled")
    found = FromFactory(T=9, architecture=token).floats_per_example
    assert found >= 2 * (2 * 9 + 1) + 4 * 9  # tanh, product and sum, kept for both passes


def convolved(x, W, b):
    """sum_j W_j x_{t + j - half}, tap by tap, position by position."""
    half, out = len(W) // 2, np.tile(b, (*x.shape[:2], 1))
    for t in range(x.shape[1]):
        for j in range(len(W)):
            if 0 <= t + j - half < x.shape[1]:
                out[:, t] += x[:, t + j - half] @ W[j]
    return out


def test_the_cnn_is_its_definition_tap_by_tap():
    spec = CNN(T=T, **{**SIZES["cnn"], "kernel": 5})
    params = jax.jit(spec.init)(jax.random.key(1))
    bits = np.random.default_rng(6).integers(0, 2, (m, T))
    ours = jax.jit(spec.mix)(params, jnp.asarray(bits, jnp.float32))
    p = {k: np.asarray(v, np.float64) for k, v in params.items()}
    x = np.asarray(jax.jit(tokens)(params), np.float64)[bits, np.arange(T)]
    for number in "12":
        x = convolved(x, p[f"W_{number}"], p[f"b_{number}"])
        x = np.asarray(jax.nn.gelu(x, approximate=False))
    np.testing.assert_allclose(ours, x.mean(axis=1), rtol=1e-5, atol=1e-6)


def test_features_of_linear_attention_are_positive():
    x = jnp.asarray([-5.0, -1.0, 0.0, 2.0])
    np.testing.assert_allclose(feature(x), [np.exp(-5), np.exp(-1), 1.0, 3.0], rtol=1e-12)


def test_linear_attention_is_its_definition_example_by_example():
    spec = LinearAttention(T=T, **SIZES["linear_attention"])
    params = jax.jit(spec.init)(jax.random.key(1))
    bits = np.random.default_rng(6).integers(0, 2, (m, T))
    ours = np.asarray(jax.jit(spec.mix)(params, jnp.asarray(bits, jnp.float32)))
    p = {k: np.asarray(v, np.float64) for k, v in params.items()}

    def ln(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    for i in range(m):
        x = ln(np.concatenate([p["embed"][bits[i]] + p["position"], p["cls"][None]]))
        q, k = (np.asarray(feature(jnp.asarray(x @ p[f"W_{a}"]))) for a in "QK")
        v = x @ p["W_V"]
        for h in range(3):
            part = slice(2 * h, 2 * h + 2)
            a = k[:, part] @ q[-1, part]
            np.testing.assert_allclose(ours[i, part], a @ v[:, part] / a.sum(), atol=1e-5)


@pytest.mark.parametrize("name", ["linear_attention", "deep_sets"])
def test_an_architecture_without_a_form_for_a_cpu_learns_by_its_gradient(name):
    spec = entry_of(name).spec(T=T, **SIZES[name])
    X = np.random.default_rng(0).integers(0, 2, (m, T)).astype(np.float32)
    X, y, mask = (jnp.asarray(part) for part in (X, X[:, 2], np.ones(m, np.float32)))
    params = jax.jit(spec.init)(jax.random.key(0))
    loss = jax.jit(jax.value_and_grad(lambda p: cross_entropy(spec.logits(p, X), y, mask)))
    before, gradient = loss(params)
    step = np.float32(0.1)
    moved = jax.tree.map(lambda p, g: np.asarray(p) - step * np.asarray(g), params, gradient)
    after, _ = loss(moved)
    assert float(after) < float(before) < 1.0
    assert all(np.asarray(g).any() for g in jax.tree.leaves(gradient))
    assert num_parameters(spec) == sum(leaf.size for leaf in jax.tree.leaves(params))


def test_lanes_train_an_architecture():
    """Trained by the engine: it memorises, its parameters come back, its spec has its name."""
    name = "gru"  # beside the LSTM above; the cells: tests/training/test_recurrent.py
    spec = entry_of(name).spec(T=T, **SIZES[name])
    trial = TrialSpec(
        task=TaskSpec(T=T, m=13, validation_size=601, reject_ambiguous=False),
        model=spec,
        optimiser=OptimiserSpec(lr=1e-2),
        steps=60,
        eval_every=30,
        restarts=1,
    )
    hardware = Hardware(workers=1, use_cache=False)
    (result,) = train([trial], hardware=hardware, keep="final", examine_from=0.0)
    run = result.runs[0]
    assert run.path == "module"
    assert "attention_mass" not in run.evals
    assert run.evals["loss"][-1] < run.evals["loss"][0] < 1.0
    assert run.evals["validation_rows"].tolist() == [601, 601]  # examine_from: all rows, always
    assert result.spec.model_dump()["model"]["architecture"] == name
    task = draw_task(trial.task)
    z = jax.jit(spec.logits)(run.parameters, task.X_validation.astype(np.float32))
    share = float(np.mean((np.asarray(z) > 0) == (task.y_validation > 0)))
    assert share == pytest.approx(run.evals["validation_accuracy"][-1])


def test_the_spectral_bound_of_an_mlp_is_of_the_network_that_is_trained():
    """The matrices that are measured compute the logits; the bound grows with T and with a norm."""
    model = MLP(T=T, width=13)
    params = jax.jit(model.init)(jax.random.key(5))
    params = {name: jnp.asarray(np.asarray(M) + np.float32(0.1 * (name in ("b_1", "b_2", "b"))))
              for name, M in params.items()}  # fmt: skip
    bits = np.random.default_rng(0).integers(0, 2, (m, T)).astype(np.float64)
    inputs = jnp.asarray(bits, params["W_1"].dtype)
    A_1, A_2, A_3 = model.layer_matrices(params)
    h = np.c_[2 * bits - 1, np.ones(m)]
    for A in (A_1, A_2):
        h = h @ A.T
        h[:, :-1] = np.asarray(jax.nn.gelu(h[:, :-1], approximate=False))
    assert np.allclose((h @ A_3.T)[:, 0], jax.jit(model.logits)(params, inputs), atol=1e-5)
    found = model.spectral_bound(params, margin=1.0)
    assert found.norms["A_2_2"] == pytest.approx(np.linalg.svd(A_2)[1][0])
    assert found.norms["B_X"] == pytest.approx(
        np.linalg.norm(np.c_[2 * bits - 1, np.ones(m)], axis=1).max()
    )
    slope = np.diff(jax.nn.gelu(np.arange(-4, 4, 1e-3), approximate=False)).max() / 1e-3
    sizes = [(np.linalg.svd(A)[1][0], sum(math.hypot(*row) for row in A)) for A in (A_1, A_2, A_3)]
    by_hand = mlp_bound(sizes, width=max(T, 13) + 1, B_X=math.sqrt(T + 1), margin=1.0,
                        L_sigma=float(slope))  # fmt: skip
    assert found.complexity(10**12) == pytest.approx(by_hand.complexity(10**12), rel=1e-4)
    assert found.status == "comparison" and len(found.assumptions) == 4
    doubled = model.spectral_bound({**params, "w": 2 * params["w"]}, margin=1.0)
    long = MLP(T=4 * T, width=13)
    longer = long.spectral_bound(jax.jit(long.init)(jax.random.key(5)), margin=1.0)
    assert found.complexity(10**12) < min(b.complexity(10**12) for b in (doubled, longer))
