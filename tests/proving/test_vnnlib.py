"""ONNX and VNN-LIB: the graph is the network, and every known answer is true on the box."""

import csv
import json
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from extended_forward import naive_outputs

import capax
from capax.attention import checkpoint
from capax.attention.transformer import Transformer, transformer_spec
from capax.boolean import SparseFunction, parse
from capax.compiler import ENCODINGS, save_compiled
from capax.compiler.proof.tables import readout_output
from capax.errors import InputError
from capax.proving.box_range import box_range
from capax.proving.onnx_network import Graph, float_head, transformer_graph
from capax.proving.vnnlib import property_text, verification
from typed_command import typed

FORMULAS = ("x0 & x2 & !x4", "x1 ^ x3", "maj(x0,x2,x5)", "1")


def outputs(graph: bytes, X: np.ndarray) -> np.ndarray:
    """The graph run by onnxruntime, row by row as its input wants it."""
    reason = "the package onnxruntime is not installed"  # it starts a thread: not before it is used
    session = pytest.importorskip("onnxruntime", reason=reason).InferenceSession(graph)
    rows = (session.run(None, {"X": x[None].astype(np.float32)})[0] for x in X)
    return np.array([row.item() for row in rows])


def boxes(f: SparseFunction, rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs with bits at the support, and elsewhere numbers in [0, 1], many of them 0 or 1."""
    X = np.clip(rng.uniform(-1, 2, (n, f.T)), 0, 1)
    rows = rng.integers(0, 1 << f.s, n)
    X[:, list(f.support)] = rows[:, None] >> np.arange(f.s) & 1
    return X, rows


def head_between(tables, X: np.ndarray) -> np.ndarray:
    """u for inputs between bits, from the tables of bits: scores and values are linear."""

    def mean(pair):
        return pair[:, 0] + X.reshape(*X.shape, *(1,) * (pair.ndim - 2)) * (pair[:, 1] - pair[:, 0])

    s = np.concatenate([mean(tables.logits.mid), np.full((len(X), 1), tables.cls_logit.mid)], 1)
    cls = np.broadcast_to(tables.cls_value.mid, (len(X), 1, tables.k))
    V = np.concatenate([mean(tables.values.mid), cls], 1)
    a = np.exp(s - s.max(1, keepdims=True))
    return (a[..., None] * V).sum(1) / a.sum(1, keepdims=True)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_graph_is_the_network_and_its_box_is_bounded(encoding):
    rng = np.random.default_rng(0)
    for formula in FORMULAS:
        compiled = capax.compile(formula, 7, encoding=encoding)
        f, model = compiled.construction.function, compiled.model
        bits = rng.integers(0, 2, (30, 7))
        found = verification(model, f)
        got = outputs(found.files["onnx/network.onnx"], bits)
        assert np.abs(got - naive_outputs(model, bits)).max() < 1e-5
        head = float_head(model)
        X, rows = boxes(f, rng, 2000)
        low, high = box_range(head.model, head.tables, f.support)
        out = readout_output(head.model, head_between(head.tables, X))
        assert (low[rows] - 1e-9 <= out).all() and (out <= high[rows] + 1e-9).all()
        assert [i.answer for i in found.instances] == ["unsat"] * (1 << f.s)


def test_the_end_of_a_box_can_lie_inside():
    """One free position whose weight falls and whose value rises: the best is between the bits."""
    model = capax.compile("x0", 2).model
    head = float_head(model)._replace(
        scores=np.array([-30.0, 3.0, 0.0]),
        score_steps=np.array([0.0, -6.0, 0.0]),
        values=np.array([[0.0], [0.0], [0.0]]),
        value_steps=np.array([[0.0], [1.0], [0.0]]),
    )
    one = eqx.tree_at(lambda m: (m.W_C, m.w), model, (jnp.ones((1, 1)), jnp.ones(1)))
    at = np.linspace(0, 1, 1001)
    X = np.stack([np.zeros_like(at), at], 1)
    reached = readout_output(one, head_between(head.tables, X)).max()
    corners = readout_output(one, head_between(head.tables, X[[0, -1]])).max()
    low, high = box_range(one, head.tables, (0,))
    assert corners < 0.1 < 0.2 < reached <= high[0]
    assert low[0] <= 0


def test_weak_heads_have_answers_of_both_kinds_and_the_inputs_show_them():
    compiled = capax.compile("x0 & x2 & !x4", 30)
    f = compiled.construction.function
    weak = eqx.tree_at(lambda m: m.W_Q, compiled.model, compiled.model.W_Q * 0.3)
    found = verification(weak, f)
    answers = {i.answer for i in found.instances}
    assert answers == {"sat", "unsat"}
    for instance in found.instances:
        if instance.answer == "sat":
            x = np.isin(np.arange(30), instance.ones)
            assert (x[list(f.support)] == (instance.row >> np.arange(3) & 1)).all()
            (out,) = outputs(found.files[instance.network], x[None])
            assert (out > weak.threshold) != bool(instance.f)
            assert instance.margin < 0


@pytest.mark.parametrize(
    ("layers", "activation", "layer_norm"),
    [(1, "gelu", True), (2, "relu", False), (2, "tanh", True)],
)
def test_trained_networks_run_elsewhere_as_here(layers, activation, layer_norm):
    spec = transformer_spec(
        T=5, d=6, heads=3, mlp_width=7, layers=layers, activation=activation,
        layer_norm=layer_norm, init_scale=0.4,
    )  # fmt: skip
    model = Transformer.init(spec, key=jax.random.key(1))
    biases = [b for block in model.blocks for b in (block.b_Q, block.b_K, block.b_V, block.b_in)]
    moved = [b + 0.1 * (i + 1) for i, b in enumerate(biases)]
    where = lambda m: [b for k in m.blocks for b in (k.b_Q, k.b_K, k.b_V, k.b_in)]  # noqa: E731
    model = eqx.tree_at(where, model, moved)
    bits = np.random.default_rng(2).integers(0, 2, (12, 5))
    want = np.asarray(jax.jit(jax.vmap(model))(bits))
    assert want.std() > 0.01
    assert np.abs(outputs(transformer_graph(model), bits) - want).max() < 1e-5


def test_a_counterexample_of_a_trained_network_is_a_known_answer():
    spec = transformer_spec(T=5, d=6, heads=3, mlp_width=7, init_scale=0.4)
    model = Transformer.init(spec, key=jax.random.key(1))
    found = verification(model, parse("x1", 5))  # an untrained network is wrong somewhere
    wrong = [i for i in found.instances if i.answer == "sat"]
    assert wrong and {i.answer for i in found.instances} == {"sat", "unknown"}
    x = np.isin(np.arange(5), wrong[0].ones)
    assert (outputs(found.files[wrong[0].network], x[None])[0] > 0) != bool(wrong[0].f)


def test_the_text_of_a_property():
    text = property_text(parse("x0 & !x2", 4), 4, 0b01, 0.5)
    lines = [line for line in text.splitlines() if not line.startswith(";")]
    assert lines == [
        "(declare-const X_0 Real)", "(declare-const X_1 Real)", "(declare-const X_2 Real)",
        "(declare-const X_3 Real)", "(declare-const Y_0 Real)",
        "(assert (>= X_0 1.0))", "(assert (<= X_0 1.0))",
        "(assert (>= X_1 0.0))", "(assert (<= X_1 1.0))",
        "(assert (>= X_2 0.0))", "(assert (<= X_2 0.0))",
        "(assert (>= X_3 0.0))", "(assert (<= X_3 1.0))",
        "(assert (<= Y_0 0.5))",
    ]  # fmt: skip
    assert re.search(r">= Y_0 0\.5", property_text(parse("x0 & !x2", 4), 4, 0b11, 0.5))


def test_the_command_writes_a_folder_of_the_competition(tmp_path):
    path = save_compiled(tmp_path / "and.safetensors", capax.compile("x0 & x2", 4))
    result = typed("export", path, "--vnnlib", tmp_path / "set", "--json")
    assert json.loads(result.stdout) == {
        "source": str(path), "vnnlib": str(tmp_path / "set"), "instances": 4,
        "unsat": 4, "sat": 0, "unknown": 0,
    }  # fmt: skip
    with (tmp_path / "set" / "instances.csv").open() as file:
        rows = list(csv.reader(file))
    assert len(rows) == 4
    for network, question, seconds in rows:
        assert (tmp_path / "set" / network).is_file() and int(seconds) > 0
        assert (tmp_path / "set" / question).is_file()
    with (tmp_path / "set" / "answers.csv").open() as file:
        known = list(csv.DictReader(file))
    assert [row["answer"] for row in known] == ["unsat"] * 4
    assert [row["f"] for row in known] == ["0", "0", "0", "1"]


def test_mistakes_are_told_in_one_line(tmp_path):
    path = save_compiled(tmp_path / "and.safetensors", capax.compile("x0 & x2", 4))
    for arguments, told in [
        ((path, "--vnnlib", tmp_path), "the folder is not empty"),
        ((path,), "--out: give"),
        ((path, "--vnnlib", tmp_path / "s", "--out", "x.csv"), "--vnnlib: cannot be combined"),
        ((path, "--vnnlib", tmp_path / "s", "--function", "x9"), "x9"),
        ((path, "--out", "x.csv", "--function", "x1"), "--function: needs --vnnlib"),
    ]:
        result = typed("export", *arguments)
        assert result.returncode == 2 and told in result.stderr, result.stderr
    spec = transformer_spec(T=4, d=4, heads=2, mlp_width=3)
    trained = checkpoint.save(
        tmp_path / "t.safetensors", Transformer.init(spec, key=jax.random.key(0))
    )
    result = typed("export", trained, "--vnnlib", tmp_path / "s")
    assert (
        result.returncode == 2
        and "--function: a trained network needs its formula" in result.stderr
    )
    assert not (tmp_path / "s").exists()
    with pytest.raises(InputError, match="the range of float32"), np.errstate(over="ignore"):
        Graph().constant(1e300)
