"""`capax bound` and `capax theorems` as a user types them."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from capax.attention import DeterministicPositions, Transformer, TransformerSpec, save
from capax.attention.readout import ClsScalar
from capax.capacity.network.sample_points import Sample
from capax.capacity.routes import model_files
from capax.capacity.weights.plain_norms import class_from_norms, parse_norms
from capax.cli.theory import bound_command as bound
from capax.cli.theory import theorems
from capax.errors import InputError
from capax.figures.theory.bound_curves import conjunction_curves, selection_head
from capax.figures.theory.slack_waterfall import waterfall_steps
from one_line import one_line

pytestmark = pytest.mark.usefixtures("without_layout")

app = typer.Typer()
bound.register(app)
theorems.register(app)

KEYS = {"statement", "log_cover", "value", "vacuous", "terms", "norms", "m_needed"}
NORMS = "W_QK=3.2,W_V=1.5,W_V_21=4,w=1"


def run(*arguments):
    result = CliRunner().invoke(app, ["bound", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def shell(warm_commands):
    """The real command in a process of its own, without the type checks of the test suite."""
    return partial(warm_commands.capax, "bound")


def test_the_real_command_prints_any_size_and_one_line_errors(shell):
    deep = ("--norms", "W_QK=300,W_V=20,W_C=9,w=1", "--layers", 100, "-T", 10**9)
    done = shell(*deep, "--json")
    assert done.returncode == 0, done.stderr
    payload = json.loads(done.stdout)
    assert payload.keys() >= KEYS
    assert payload["vacuous"] is True
    assert payload["m_needed"] > 10**6
    bad = shell("--norms", "W_QX=1")
    assert bad.returncode == 2
    assert bad.stderr == "error: --norms: W_QX is not a norm; did you mean W_QK?\n"
    assert bad.stdout == ""


def test_text_explain_and_latex(shell):
    small = ("--norms", "W_QK=1,v=1")
    text = shell(*small).stdout
    assert "vacuous" in text
    assert "dominant term" in text
    assert "<- dominant" in run(*small, "--explain")
    assert r"\begin{align*}" in run(*small, "--latex")


def test_capax_checkpoint_with_and_without_data(tmp_path, shell):
    d = 8
    W_Q, kappa, W_V = np.zeros((d, 1)), np.zeros((d, 1)), np.zeros((d, 1))
    kappa[[1, 3]], kappa[6], kappa[7] = 6.0, -5.0, 4.0
    W_Q[-1], W_V[[1, 3]], W_V[-1] = 1.0, -1.0, 1.0
    arrays = (jnp.asarray(x, jnp.float32) for x in (W_Q, kappa, W_V, np.ones((1, 1)), np.ones(1)))
    save(tmp_path / "head.safetensors", ClsScalar(DeterministicPositions(5), *arrays), {})
    X = np.random.default_rng(0).integers(0, 2, (300, 5))
    np.savez(tmp_path / "data.npz", X=X, y=X[:, 1] & X[:, 3])
    alone = json.loads(shell(tmp_path / "head.safetensors", "--json").stdout)
    assert alone.keys() >= KEYS
    assert alone["kind_of_model"] == "ClsScalar"
    assert "C_N = 1" in alone["applies"][0]["detail"]
    text = run(tmp_path / "head.safetensors", "--data", tmp_path / "data.npz")
    assert "applies to ClsScalar" in text
    assert "realizable margin bound" in text


def test_transformer_checkpoint(tmp_path):
    spec = TransformerSpec(T=5, d=8, heads=1, mlp_width=7)
    model = Transformer.init(spec, key=jax.random.key(0), dtype=jnp.float32)
    save(tmp_path / "model.safetensors", model, {})
    payload = json.loads(run(tmp_path / "model.safetensors", "--json"))
    assert payload["kind_of_model"] == "Transformer (1 layer)"
    # weights this small cannot give a margin of 1 to two labels: a promise about nothing
    refuted = [a["text"] for a in payload["assumptions"] if a["holds"] is False]
    assert refuted == ["some function of the class has this margin on two labels"]
    assert "NOT TRUE" in run(tmp_path / "model.safetensors")


def test_gpt2_file(gpt2_file, monkeypatch):
    payload = json.loads(run(gpt2_file, "--heads", 2, "--json"))
    assert [row["head"] for row in payload["heads"]] == [0, 1]
    assert payload["heads"][0].keys() >= {"W_QK_F", "W_VO_21", "log10_capacity"}
    # thousands of heads are counted once, not once for every m that might do
    monkeypatch.setattr(model_files, "MOST_HEADS", 1)
    deep = json.loads(run(gpt2_file, "--heads", 2, "--json"))
    assert payload["m_needed"] and not deep["m_needed"]


def test_pictures(tmp_path):
    fixed, curves, steps = (tmp_path / f"{name}.png" for name in ("fixed", "curves", "steps"))
    (tmp_path / "mine.csv").write_text("T,m\n100,90\n10,40\n")
    run("--norms", NORMS, "--plot", fixed)
    words = ("--plot", curves, "--waterfall", steps, "--curve", tmp_path / "mine.csv")
    payload = json.loads(run(*words, "--dark", "--json"))
    assert payload["curves"]["mine"] == {"T": [10, 100], "m": [40.0, 90.0]}
    assert all(path.stat().st_size > 10_000 for path in (fixed, curves, steps))
    assert payload["curves"].keys() >= {"this bound (Corollary 4.5)", "information floor (Fano)"}


def test_curves_keep_their_order():
    curves = {c.name: c.m for c in conjunction_curves(contexts=(100, 10**6))}
    for floor, occam, ours, paper in zip(
        curves["information floor (Fano)"], curves["Occam (description length)"],
        curves["this bound (Corollary 4.5)"], curves["paper-style (36)"], strict=True,
    ):  # fmt: skip
        assert floor < occam < ours < paper
    assert curves["parameter counting"][1] > 50 * curves["this bound (Corollary 4.5)"][1]
    assert selection_head(10**6, 3).margin > 0.5


def test_waterfall_only_falls_upwards():
    values = [step.log_cover for step in waterfall_steps()]
    assert values == sorted(values)


def test_theorems():
    result = CliRunner().invoke(app, ["theorems", "4.5", "--json"], catch_exceptions=False)
    rows = json.loads(result.stdout)["statements"]
    assert [row["statement"] for row in rows] == ["Corollary 4.5"]
    assert "Lemma 4.3" in CliRunner().invoke(app, ["theorems"], catch_exceptions=False).stdout


def test_norms_fill_each_other_in():
    norms = parse_norms("W_QK=2, W_V=1.5 , w=1")
    assert norms == {"W_QK_F": 2.0, "W_V_2": 1.5, "w_2": 1.0}
    loose = class_from_norms(norms, d=16).cover(Sample(100, 50), 0.5).value
    tight = class_from_norms({**norms, "W_V_21": 2.0, "W_V_F": 1.6}, d=16)
    assert tight.cover(Sample(100, 50), 0.5).value < loose
    assert class_from_norms(parse_norms("W_QK=2,v=1"), d=16).statement.endswith("read-out)")
    assert "one head)" in class_from_norms(parse_norms("W_QK=2,W_V=1"), d=16).statement


BAD = [
    (("--norms", ""), "--norms: wanted at least one norm"),
    (("--norms", "W_QK"), "--norms: wanted name=value pairs"),
    (("--norms", "W_QK=x"), "--norms: wanted a number for W_QK"),
    (("--norms", "W_QK=nan,v=1"), "W_QK: wanted a finite number > 0"),
    (("--norms", "W_QK=0,v=1"), "W_QK: wanted a finite number > 0"),
    (("--norms", "W_QK=inf,v=1"), "W_QK: wanted a finite number > 0"),
    (("--norms", "W_V=1"), "--norms: wanted W_QK"),
    (("--norms", "W_QK=1"), "--norms: wanted W_V"),
    (("--norms", "W_QK=1,W_V=2,W_V_F=1"), "W_V_F: wanted at least"),
    (("--norms", "W_QK=1,v=1", "--delta", 1.5), "delta: wanted"),
    (("--norms", "W_QK=1,v=1", "--margin", 0), "margin: wanted"),
    (("--norms", "W_QK=1,v=1", "-m", 0), "m: wanted"),
    (("--norms", "W_QK=1,v=1", "-T", -1), "T: wanted"),
    (("--norms", "W_QK=1", "-T", -5), "T: wanted"),
    (("--waterfall", "x.png", "-T", -5), "T: wanted"),
    (("--norms", "W_QK=1,v=1", "-d", 0), "d: wanted"),
    (("--norms", "W_QK=1,v=1", "--layers", 0), "layers: wanted"),
    (("--norms", "W_QK=1,v=1", "--plot", "x.gif"), "out: wanted a file name"),
    (("--norms", "W_QK=1,v=1", "--curve", "c.csv"), "--curve: wanted --plot"),
    ((), "bound: wanted a model file or --norms"),
    (("missing.safetensors",), "missing.safetensors: file not found (wanted a safetensors file)"),
    (("missing.safetensors", "--plot", "x.png"), "--plot: wanted --norms"),
    (("--norms", "W_QK=1,v=1", "--waterfall", "x.png"), "--waterfall: wanted neither"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(arguments, message):
    with one_line(message):
        CliRunner().invoke(app, ["bound", *map(str, arguments)], catch_exceptions=False)


def test_unknown_statement():
    with pytest.raises(InputError, match="number: wanted part of one of"):
        CliRunner().invoke(app, ["theorems", "9.9"], catch_exceptions=False)


def test_what_capax_data_writes_is_what_capax_bound_reads(tmp_path):
    """One file, both parts: noise and tries travel with it; a plain file with X and y does too."""
    from capax.cli.experiments import data as data_command

    tool = typer.Typer()
    data_command.register(tool)
    task, model = tmp_path / "task.npz", tmp_path / "head.safetensors"
    drawn = CliRunner().invoke(
        tool, ["x1 & x3", "-T", "5", "-m", "80", "--noise", "0.2", "--out", str(task)],
        catch_exceptions=False,
    )  # fmt: skip
    assert drawn.exit_code == 0
    d = 8
    W_Q, kappa, W_V = np.zeros((d, 1)), np.zeros((d, 1)), np.zeros((d, 1))
    kappa[[1, 3]], kappa[6], kappa[7] = 6.0, -5.0, 4.0
    W_Q[-1], W_V[[1, 3]], W_V[-1] = 1.0, -1.0, 1.0
    arrays = (jnp.asarray(x, jnp.float32) for x in (W_Q, kappa, W_V, np.ones((1, 1)), np.ones(1)))
    save(model, ClsScalar(DeterministicPositions(5), *arrays), {})
    asked = ("--data", task, "--holdout", task, "--family", "and2", "--frozen")
    payload = json.loads(run(model, *asked, "--json"))
    assert payload["examples"] == {"data": 80, "holdout": 10_000}
    assert payload["conditioning"]["tries"] >= 1
    rows = {row["statement"]: row for row in payload["portfolio"]}
    # the rows of the file have clean labels and ended runs: fresh ones are as noisy as the data
    assert rows["Hold-out (binomial tail)"]["predictor"] == "the model"
    assert 0.19 < rows["Hold-out (binomial tail)"]["value"] < 0.23
    assert rows["Occam (binomial tail)"]["predictor"] == "and2 on x1, x3"
    assert "Linear read-out (direct Rademacher)" in rows
    spent = sum(row["delta"] for row in payload["portfolio"]) + payload["conditioning"]["delta"]
    assert spent <= 0.05 * (1 + 1e-9)
    assert payload["predictor"] == "the model"
    assert payload["value"] == min(
        row["value"] for row in rows.values() if row["predictor"] == "the model"
    )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.zeros((3, 5))}, "wanted arrays X and y"),
        ({"X": np.zeros((3, 5)), "y": np.zeros(2)}, "y: wanted 3 labels"),
        ({"X": np.full((3, 5), 2), "y": np.zeros(3)}, "X: wanted bits"),
        ({"X": np.zeros((0, 5)), "y": np.zeros(0)}, "at least one example"),
        ({"X": np.array([None] * 3), "y": np.zeros(3)}, "X: wanted numbers"),
    ],
)
def test_a_bad_data_file_is_one_line(tmp_path, arrays, message):
    from capax.data.examples import read_examples

    np.savez(tmp_path / "bad.npz", **arrays)
    with one_line(message):
        read_examples(tmp_path / "bad.npz", "train")
