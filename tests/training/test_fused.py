"""The step as one kernel. What is around the kernel is tested everywhere, with the kernel's work
done in JAX; the kernel itself where there is a GPU it is written for."""

import re
from dataclasses import replace
from functools import partial
from importlib import resources

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from capax.attention.collapsed.design import one_hot
from capax.attention.collapsed.one_layer import collapse, logits
from capax.attention.transformer import Transformer, TransformerSpec
from capax.data.task import validation_inputs
from capax.training.fused import nvrtc, step_kernel
from capax.training.fused import step as fused
from capax.training.programs.advancing import advance
from capax.training.programs.compiled import executables
from capax.training.programs.program import SUBSET
from capax.training.programs.shape import program_of
from capax.training.specs.trial_specs import OptimiserSpec
from capax.training.steps.objective import cross_entropy
from capax.training.steps.optimiser import adam_rates, after_adam, transformation
from plain_programs import plain_jit


def has_hopper():
    return any(getattr(d, "compute_capability", "") == "9.0" for d in jax.devices())


on_hopper = pytest.mark.skipif("not has_hopper()", reason="needs a GPU of compute capability 9.0")


@pytest.mark.parametrize(
    ("model", "rule", "rows", "width", "part"),
    [
        ({"d": 32}, {}, 60, 1024, "d = 64"),
        ({"heads": 8}, {}, 60, 1024, "16 heads"),
        ({"mlp_width": 100}, {}, 60, 1024, "multiple of 64"),
        ({"activation": "relu"}, {}, 60, 1024, "gelu"),
        ({"layer_norm": False}, {}, 60, 1024, "LayerNorm"),
        ({}, {"name": "sgd"}, 60, 1024, "Adam"),
        ({}, {}, 257, 1024, "256 examples"),
        ({}, {}, 60, 63, "fewer than 64 models"),
    ],
)
def test_what_the_kernel_does_not_cover_is_said(model, rule, rows, width, part):
    spec = TransformerSpec(**{"T": 300, **model})
    reason = fused.not_covered(spec, OptimiserSpec(**rule), rows, width)
    assert reason is not None
    assert part in reason


def test_a_cpu_takes_the_step_of_xla():
    spec, device = TransformerSpec(T=300), jax.devices("cpu")[0]
    assert fused.not_covered(spec, OptimiserSpec(), 60, 1024) is None
    assert "9.0" in str(fused.why_not(spec, OptimiserSpec(), 60, 1024, device))


def test_a_kernel_that_does_not_run_is_not_used(monkeypatch):
    def no_library():
        raise nvrtc.NvrtcError("NVRTC was not found")

    monkeypatch.setattr(nvrtc, "_library", no_library)
    monkeypatch.setattr(nvrtc, "cache_folder", lambda: step_kernel.resources.files("capax"))
    device = jax.devices()[0]
    step_kernel._compiled_once.cache_clear()
    assert "NVRTC was not found" in fused._trouble(TransformerSpec(T=1), OptimiserSpec(), device)
    fused._trouble.cache_clear()


def test_the_library_says_what_it_refuses():
    with pytest.raises(nvrtc.NvrtcError, match="NVRTC"):
        nvrtc.to_ptx("this is not C++", {}, [])  # no library here, or a syntax error


def test_the_shipped_kernel_is_that_of_the_source_and_for_machines_that_can_read_it(monkeypatch):
    for part in (0, *step_kernel.PARTS):
        macros = step_kernel.macros_of(TransformerSpec(T=300), OptimiserSpec(), part)
        source = step_kernel.whole_source(macros)
        name = f"{step_kernel.identity(*source)}.ptx"  # else: ship_kernel.py
        monkeypatch.setattr(step_kernel, "version", lambda: (12, 9))
        assert step_kernel._shipped(name) is None
        monkeypatch.setattr(step_kernel, "version", lambda: (13, 1))
        text = step_kernel._shipped(name)
        assert text is not None and ".entry step" in text
        assert f"release {'.'.join(map(str, step_kernel.SHIPPED_BY))}" in text
    assert step_kernel._shipped("0" * 32 + ".ptx") is None


@pytest.mark.parametrize("T", [1, 4096, 4097, 10_000, 30_000, 100_000, 100_001, 1_000_000])
def test_pieces_are_whole_chunks_of_positions_and_none_is_empty(T):
    count, each = step_kernel.pieces(T)
    assert (count - 1) * each < T <= count * each
    assert (count == 1) == (T <= 2 * step_kernel.PIECE) == (step_kernel.shortest(T) == 1)
    assert count == 1 or each % 64 == 0
    assert count == 1 or each <= step_kernel.PIECE + 64


@pytest.mark.parametrize(("T", "grids"), [(300, [(3, 1)]), (5000, [(3, 3), (3, 1)] * 2)])
def test_long_inputs_take_four_launches_that_hand_on_all_they_change(T, grids, monkeypatch):
    monkeypatch.setattr(step_kernel, "_compiled", lambda macros: f"source {macros[-1]}")
    spec, params, bits, y, weight = problem(3, 10, T, 1, seed=0)
    leaves = [x for p in jax.tree.leaves(params) for x in (p, p, p)]
    sources = step_kernel.ptx(spec, OptimiserSpec())
    launch = jax.jit(partial(step_kernel.launch, sources, spec.mlp_width, T))
    arguments = leaves, jax.vmap(fused.pack)(bits), y, weight, jnp.ones((3, 4), jnp.float32)
    text = launch.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    calls = [line for line in text.splitlines() if "xla.gpu.ptx" in line]
    found = [re.findall(r"grid_[xy] = (\d+)", line) for line in calls]
    assert found == [[str(x) for x in grid] for grid in grids]
    for i, line in enumerate(calls):  # from the second on, scratch is updated in place too
        assert line.count("output_operand_alias<") == len(leaves) + (i > 0)


def test_every_include_and_macro_of_the_source_is_given():
    folder = resources.files("capax.training.fused") / "cuda"
    files = {entry.name: entry.read_text() for entry in folder.iterdir()}
    included = set(re.findall(r'#include "(.*)"', "".join(files.values())))
    assert included == set(files) - {"step.cu"}
    listed = re.search(r"Macros: (.*?)\n[^/]", files["sizes.cuh"], re.DOTALL)
    assert listed is not None
    source = resources.files("capax.training.fused").joinpath("step_kernel.py").read_text()
    for macro in re.findall(r"[A-Z][A-Z0-9_]{3,}", listed[1]):
        assert f'"{macro}"' in source


@pytest.mark.parametrize("T", [5, 32, 71])
def test_symbols_are_packed_32_to_a_word(T):
    bits = np.random.default_rng(T).integers(0, 2, (3, T)).astype(np.uint8)
    words = np.asarray(fused.pack(jnp.asarray(bits)))
    assert words.shape == (3, -(-T // 32))
    for i, t in np.ndindex(3, T):
        assert words[i, t // 32] >> (t % 32) & 1 == bits[i, t]


def adam(rule, rates, g, p, m, v):
    """The formula of adam.cuh."""
    first, second, rate, decay = rates
    m = (1 - rule.b1) * g + rule.b1 * m
    v = (1 - rule.b2) * g**2 + rule.b2 * v
    return p - rate * (first * m / (second * jnp.sqrt(v) + rule.eps) + decay * p), m, v


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize("schedule", [{}, {"schedule": "cosine", "warmup": 2}])
def test_the_rates_of_a_step_are_those_of_optax(name, schedule):
    rule = OptimiserSpec(name=name, **schedule)
    rates = jnp.float32(0.01), jnp.float32(0.1), jnp.float32(7.0)
    wanted = given = jnp.array([0.3, -2.0, 5.0], jnp.float32)
    optimiser = transformation(rule, *rates)
    state = other = optimiser.init(wanted)

    @plain_jit
    def both(g, wanted, state, given, other):
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimiser.update(g, state, wanted)
            wanted = optax.apply_updates(wanted, updates)
        numbers = adam_rates(rule, *rates, other)
        given, m, v = adam(rule, numbers, g, given, other[0].mu, other[0].nu)
        return wanted, state, given, after_adam(other, m, v)

    for i in range(5):
        g = np.float32([0.1, -0.7, 3.0]) * np.float32(i - 2.5)
        wanted, state, given, other = both(g, wanted, state, given, other)
        np.testing.assert_allclose(given, wanted, rtol=1e-6)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), other, state)


def in_jax(spec, rule):
    """What the kernel does, by JAX: same arguments, same results."""
    tree = jax.tree.structure(shapes_of(spec))

    def one(leaves, words, y, weight, rates):
        bits = (words[:, :, None] >> jnp.arange(32, dtype=jnp.uint32)[None, None, :]) & 1
        X = one_hot(bits.reshape(len(y), -1)[:, : spec.T].astype(jnp.uint8), 2, leaves[0].dtype)

        def loss(values):
            return cross_entropy(logits(jax.tree.unflatten(tree, values), X), y, weight)

        gradient = jax.grad(loss)(leaves[::3])
        new = [
            adam(rule, rates, *entry)
            for entry in zip(gradient, leaves[::3], leaves[1::3], leaves[2::3], strict=True)
        ]
        return [leaf for entry in new for leaf in entry]

    return jax.vmap(one)


def test_an_ensemble_steps_through_one_call(trial_of, one_by_one, lanes_of, monkeypatch):
    trials = [trial_of(seed, m=29 + seed) for seed in range(3)]
    program = program_of(trials[0], one_by_one, max_m=31)
    spec, rule = program.path.spec, program.rule
    calls = []

    def launch(sources, hidden, T, *arguments):
        assert (sources, hidden, T) == (("the source",), spec.mlp_width, spec.T)
        calls.append(len(arguments[1]))
        return in_jax(spec, rule)(*arguments)

    monkeypatch.setattr(fused, "launch", launch)
    monkeypatch.setattr(fused, "ptx", lambda *_: ("the source",))
    single = executables(program, one_by_one.all_devices[0], 1, one_by_one.compiler_options())
    lanes = lanes_of(trials, program, single)
    task = trials[0].task
    pool = validation_inputs(task.T, task.probability, task.validation_size)[:SUBSET]
    step_all = partial(advance, replace(program, fused=True))
    jax.eval_shape(step_all, lanes[0], pool)
    assert calls == [1]
    stacked = jax.tree.map(lambda *x: np.stack(x), *lanes)
    together, measured = plain_jit(jax.vmap(step_all, in_axes=(0, None)))(stacked, pool)
    assert calls[-1] == 3
    for i, lane in enumerate(lanes):
        alone, wanted = single.advance(jax.device_put(lane), jax.device_put(pool))
        np.testing.assert_allclose(measured.loss[i], wanted.loss, rtol=1e-4)
        for a, b in zip(*map(jax.tree.leaves, (together, alone)), strict=True):
            np.testing.assert_allclose(a[i], b, atol=1e-4)


def shapes_of(spec):
    return eqx.filter_eval_shape(lambda: collapse(Transformer.init(spec, key=jax.random.key(0))))


def problem(B, m, T, spread, seed):
    """Parameters away from special values, scores spread over about `spread` nats; examples."""
    spec, random = TransformerSpec(T=T), np.random.default_rng(seed)

    def drawn(path, x):
        name = jax.tree_util.keystr(path, simple=True)
        size = 0.1 * (spread / 6 if name == "W_K" else 1)
        values = size * random.standard_normal((B, *x.shape)) + name.endswith("gain")
        return jnp.asarray(values, jnp.float32)

    params = jax.tree_util.tree_map_with_path(drawn, shapes_of(spec))
    bits, y = (random.random(shape) < 0.5 for shape in ((B, m, T), (B, m)))
    mask = np.tile(np.float32(np.arange(m) < m - m // 7), (B, 1))
    weight = mask / mask.sum(axis=1, keepdims=True)
    return spec, params, jnp.uint8(bits), jnp.float32(y), jnp.asarray(weight)


RULE = OptimiserSpec()


def stepped(spec, leaves, words, y, weight):
    """Parameters and moments after one launch, or four."""
    rates = jnp.tile(jnp.array([10.0, 31.6, 1e-3, 0.1], jnp.float32), (len(y), 1))
    sources = step_kernel.ptx(spec, RULE)
    launch = jax.jit(partial(step_kernel.launch, sources, spec.mlp_width, spec.T))
    return launch(leaves, words, y, weight, rates), rates


def given(B, m, T, spread, seed):
    """Arguments of `stepped`."""
    spec, params, bits, y, weight = problem(B, m, T, spread, seed)
    leaves = [x for p in jax.tree.leaves(params) for x in (p, 0 * p, 0 * p)]
    return spec, leaves, jax.vmap(fused.pack)(bits), y, weight


def in_float64(spec, leaves, words, *numbers):
    """What the kernel is to give, by JAX in float64."""
    leaves, numbers = jax.tree.map(lambda x: x.astype(jnp.float64), (leaves, numbers))
    return jax.jit(in_jax(spec, RULE))(leaves, words, *numbers)


whole_and_in_pieces = pytest.mark.parametrize("piece", [step_kernel.PIECE, 64])


@on_hopper
@pytest.mark.parametrize(
    ("m", "T", "spread", "piece"),
    [
        *[(60, 300, 1, 0), (60, 300, 30, 0), (37, 50, 1, 0), (64, 15, 1, 0), (150, 101, 1, 0)],
        *[(200, 64, 30, 0), (60, 300, 1, 64), (200, 300, 30, 64), (37, 129, 1, 64)],
        *[(150, 1001, 30, 128), (256, 333, 1, 100), (70, 10_007, 10, 0)],
    ],
)
def test_the_kernel_gives_the_gradients_and_the_update(m, T, spread, piece, monkeypatch):
    monkeypatch.setattr(step_kernel, "PIECE", piece or step_kernel.PIECE)
    spec, leaves, *data = given(3, m, T, spread, seed=m + T)
    assert (step_kernel.pieces(T)[0] > 1) == (piece > 0 or T > 10_000)
    got, rates = stepped(spec, leaves, *data)
    wanted = in_float64(spec, leaves, *data, rates)
    # tensor cores cut sums off: the error grows with the positions that one block adds up
    longer = max(1.0, step_kernel.pieces(T)[1] / 300)
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        size = 1.0 if i % 3 == 0 else float(jnp.max(jnp.abs(b))) + 1e-30
        tolerance = (1e-5, 1e-5 * longer, 3e-5 * longer)[i % 3]  # a square: twice the error
        moved = jnp.abs(a - b) / size
        if i % 3 == 0:  # Adam divides by the gradient: where that is noise, the sign may differ
            gradient = jnp.abs(wanted[i + 1])
            reliable = gradient > 1e-4 * longer * jnp.max(gradient)
            moved = jnp.where(reliable, moved, 0.0)
        assert float(jnp.max(moved)) < tolerance, (i, float(jnp.max(moved)))


@on_hopper
@whole_and_in_pieces
def test_a_model_does_not_depend_on_its_neighbours(piece, monkeypatch):
    monkeypatch.setattr(step_kernel, "PIECE", piece)
    spec, leaves, *data = given(5, 60, 300, 1, seed=3)
    order = np.array([3, 1, 4, 0, 2])
    there, _ = stepped(spec, leaves, *data)
    moved, _ = stepped(spec, [x[order] for x in leaves], *(x[order] for x in data))
    alone, _ = stepped(spec, [x[3:4] for x in leaves], *(x[3:4] for x in data))
    for a, b, c in zip(there, moved, alone, strict=True):
        np.testing.assert_array_equal(np.asarray(a)[order], np.asarray(b))
        np.testing.assert_array_equal(np.asarray(a)[3:4], np.asarray(c))


@on_hopper
@whole_and_in_pieces
def test_rows_without_an_example_change_nothing_and_idle_slots_stay(piece, monkeypatch):
    monkeypatch.setattr(step_kernel, "PIECE", piece)
    spec, leaves, words, y, weight = given(3, 60, 201, 1, seed=5)
    tight, _ = stepped(spec, leaves, words, y, weight)
    more = [jnp.pad(x, ((0, 0), (0, 140), *[(0, 0)] * (x.ndim - 2))) for x in (words, y, weight)]
    for a, b in zip(tight, stepped(spec, leaves, *more)[0], strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    idle, _ = stepped(spec, leaves, words, y, weight.at[1].set(0.0))
    for before, a, b in zip(leaves, idle, tight, strict=True):
        np.testing.assert_array_equal(np.asarray(a)[1], np.asarray(before)[1])
        np.testing.assert_array_equal(np.asarray(a)[[0, 2]], np.asarray(b)[[0, 2]])
