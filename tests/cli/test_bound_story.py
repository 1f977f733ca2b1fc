"""`capax bound` tells one story: what is assumed, which T, rigorous or not, one m."""

import json
import math
import re
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from capax.attention import (
    AttentionLayer,
    BilinearScore,
    Head,
    Linear,
    Softmax,
    Sparsemax,
    Transformer,
    TransformerSpec,
    save,
)
from capax.capacity.margins.margin_bounds import realizable_bound
from capax.capacity.network.paper_style import paper_style_cover
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.model_bounds import measure
from capax.capacity.weights.plain_norms import class_from_norms, parse_norms
from capax.cli.theory import bound_command as bound
from capax.errors import InputError
from typed_command import typed

app = typer.Typer()
bound.register(app)
app.command("other")(lambda: None)  # with two commands each keeps its name
README = Path(__file__).parents[2] / "README.md"
OLD_EXAMPLE = ("--norms", "W_QK=3.2,W_V=1.5,W_V_21=4,w=1", "-T", "1000", "-m", "5000", "-d", "64")


def run(*arguments):
    result = CliRunner().invoke(app, ["bound", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def promised(text):
    return re.findall(r"error <= 0\.1 from m = ([\d ]+) on", text)


def test_explain_and_the_headline_promise_the_same_m():
    plain, explained = run(*OLD_EXAMPLE), run(*OLD_EXAMPLE, "--explain")
    payload = json.loads(run(*OLD_EXAMPLE, "--json"))
    numbers = promised(plain) + promised(explained)
    assert numbers == [numbers[0]] * 2
    m = int(numbers[0].replace(" ", ""))
    assert m == payload["m_needed"] == min(e["m_needed"] for e in payload["portfolio"])
    # the route that is written out is the route of that m
    assert explained.count(f"m needed for a value <= 0.1: {numbers[0]}") == 1
    again = json.loads(run(*OLD_EXAMPLE[:-3], m, *OLD_EXAMPLE[-2:], "--json"))
    assert again["value"] <= 0.1


def test_the_route_of_the_best_value_and_the_route_of_the_least_m_are_both_explained():
    """At a tiny m the uniform bound may be the smaller vacuous number; both are on the page."""
    text = run("--norms", "W_QK=1,v=1", "-T", 10, "-m", 30, "--explain")
    m = promised(text)[0]
    assert f"m needed for a value <= 0.1: {m}" in text


def test_the_lead_example_says_something():
    line = next(line for line in README.read_text().splitlines() if line.startswith("capax bound"))
    arguments = shlex.split(line, comments=True)[2:]
    payload = json.loads(run(*arguments, "--json"))
    assert payload["vacuous"] is False
    assert payload["value"] < 0.2
    assert payload["status"] == "rigorous"


def test_the_papers_constant_stands_beside_ours():
    sizes = ("-T", 9, "-m", 11, "--margin", 0.5, "-d", 16)
    for norms, paper in {
        "W_QK=2,W_QK_T_21=3,v=1.5": paper_style_cover(3.0, 1.5, 1.5, Sample(11, 9), 0.25),
        "W_QK=2,W_V=1,W_V_21=2,w=3,B_X=2": paper_style_cover(
            8.0, 1.0, 2.0, Sample(11, 9), 0.25, L_out=3.0, B_X=2.0, B_z=2.0
        ),
    }.items():
        found = json.loads(run("--norms", norms, *sizes, "--json"))["log_cover_compared"]
        assert found["log10_paper"] == pytest.approx(paper.log_value / math.log(10))
        ours = class_from_norms(parse_norms(norms), d=16).cover(Sample(11, 9), 0.25)
        assert found["log10_ours"] == pytest.approx(ours.log_value / math.log(10))
        text = run("--norms", norms, *sizes)
        assert "with the paper's constants" in text
        assert ("W_QK_T_21 taken as sqrt(d) W_QK" in text) == ("T_21" not in norms)


def test_a_margin_that_was_not_measured_is_an_assumption():
    text = run("--norms", "W_QK=1,v=1", "--margin", 0.25, "--explain")
    assert "[assumed] y f > 0.25 on every training sequence" in text
    payload = json.loads(run("--norms", "W_QK=1,v=1", "-m", 200, "--json"))
    assert any("y f" in a["text"] and a["holds"] is None for a in payload["assumptions"])


@pytest.mark.parametrize(
    ("norms", "message"),
    [
        ("W_QK=1,W_V=1.5,W_V_21=1,w=1", "W_V_21: wanted at least W_V_2 = 1.5"),
        ("W_QK=1,W_V_F=3,W_V_21=1,w=1", "W_V_21: wanted at least W_V_F = 3"),
        ("W_QK=1,W_V_F=1,W_V_21=9,w=1", "W_V_21: wanted at most 8, as W_V_F = 1"),
        ("W_QK=1,W_V=1,W_V_F=9,w=1", "W_V_F: wanted at most 8, as W_V_2 = 1"),
        ("W_QK=1,W_QK_T_21=0.5,v=1", "W_QK_T_21: wanted at least W_QK_F = 1"),
        ("W_QK=1,v=1,W_V=2", "--norms: wanted only norms that a linear read-out v uses"),
        ("W_QK=1,W_V=1,c=1,w=1", "--norms: wanted only norms that a read-out c uses"),
        ("W_QK=1,v=1,C_N=2,r_X=0.5", "r_X: wanted no C_N beside it"),
        ("W_QK=1,W_V=1,W_C=1e200,w=1e200", "c_2: wanted a finite number"),
    ],
)
def test_norms_of_no_matrix_and_norms_without_a_use_are_refused(norms, message):
    with pytest.raises(InputError) as caught:
        run("--norms", norms, "-d", 64)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "norms",
    ["W_QK=1e200,v=1e200", "W_QK=1e200,W_V=1e200,w=1e200", "W_QK=1e-200,v=1e-200,B_X=1e-200",
     "W_QK=1e300,v=1e300,B_X=1e300", "W_QK=1e300,W_V=1e300,w=1,C_N=1e300"],
)  # fmt: skip
@pytest.mark.parametrize("layers", [1, 3])
def test_norms_at_the_ends_of_the_float_range_print(norms, layers):
    if layers > 1:
        norms = norms.replace("v=", "W_C=") + ("" if "W_V" in norms else ",W_V=1")
        norms += "" if "W_C" in norms else ",W_C=1e200"
    assert run("--norms", norms, "--layers", layers, "--explain" if layers == 1 else "--json")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    layer = AttentionLayer(
        normal(1, 5, 2), normal(1, 5, 2), normal(1, 5, 2), normal(1, 2, 3), norm=Sparsemax()
    )
    save(folder / "layer.safetensors", layer, {})
    head = Head(BilinearScore(normal(5, 5)), Softmax(), Linear(normal(5, 3)), Linear(normal(3, 1)))
    save(folder / "head.safetensors", head, {})
    spec = TransformerSpec(T=5, d=8, heads=2, mlp_width=7)
    model = Transformer.init(spec, key=jax.random.key(0), dtype=jnp.float32)
    save(folder / "model.safetensors", model, {})
    return folder


def test_a_layer_without_an_encoding_asks_for_T_and_for_the_length_of_a_token(files):
    path = files / "layer.safetensors"
    with pytest.raises(InputError, match="T: wanted a context length"):
        run(path, "--B_X", 1)
    with pytest.raises(InputError, match="--B_X: wanted the length of the longest token"):
        run(path, "-T", 10)
    short, long, wide = (
        json.loads(run(path, "-T", T, "--B_X", B, "--json"))
        for T, B in ((1, 1.0), (10**6, 1.0), (1, 3.0))
    )
    assert short["log10_value"] < min(long["log10_value"], wide["log10_value"])
    assert (short["norms"]["C_N"], long["norms"]["C_N"]) == (2, 10**6 + 1)
    assert "grows with T" in long["applies"][0]["detail"]


def test_a_vector_has_no_margin(files):
    payload = json.loads(run(files / "layer.safetensors", "-T", 10, "--B_X", 2, "--json"))
    assert (payload["kind"], payload["status"]) == ("log_cover", "rigorous")
    text = run(files / "layer.safetensors", "-T", 10, "--B_X", 2)
    assert "error <=" not in text
    assert "the output is a vector" in text
    assert "every token and query has length at most B_X = 2" in text
    np.savez(files / "data.npz", X=np.zeros((3, 10)), y=np.zeros(3))
    with pytest.raises(InputError, match="--data: wanted a model with one number per sequence"):
        run(files / "layer.safetensors", "-T", 10, "--B_X", 2, "--data", files / "data.npz")
    scalar = json.loads(run(files / "head.safetensors", "-T", 10, "--B_X", 2, "--json"))
    assert scalar["kind"] == "error"
    assert "error <=" not in run("--norms", "W_QK=2,W_V=1")


def test_a_model_that_fixes_T_or_its_tokens_contradicts_another(files):
    path = files / "model.safetensors"
    assert json.loads(run(path, "-T", 5, "--json"))["T"] == 5
    with pytest.raises(InputError, match="T: wanted 5, the length of this model, got 6"):
        run(path, "-T", 6)
    with pytest.raises(InputError, match="--B_X: wanted none"):
        run(path, "--B_X", 1)


def test_every_printed_bound_says_what_it_is(files, gpt2_file):
    foreign = (gpt2_file, "--heads", 2)
    assert json.loads(run(*foreign, "--json"))["status"] == "comparison"
    for arguments, status in (
        (foreign, "comparison"),
        ((files / "model.safetensors",), "rigorous"),
        (("--norms", "W_QK=1,v=1"), "rigorous"),
        ((files / "layer.safetensors", "-T", 3, "--B_X", 1), "rigorous"),
    ):
        assert f"[{status}]" in run(*arguments)
    for style in ("--explain", "--latex"):
        assert "[rigorous]" in run("--norms", "W_QK=1,v=1", style)


def test_a_second_layer_is_never_cheaper():
    """LayerNorm costs both models the same: ln(316) per parameter or 316 per norm."""
    needed = []
    for layers in (1, 2):
        spec = TransformerSpec(T=30, d=8, heads=2, layers=layers, mlp_width=16, init_scale=0.3)
        model = Transformer.init(spec, key=jax.random.key(1), dtype=jnp.float32)
        measured = measure(model)
        cls, grid = measured.rounded()
        promise = realizable_bound(
            cls, measured.sample(5000), 1.0, 0.05, cost=grid.cost, target=0.1
        )
        needed.append(promise.m_needed)
    assert needed[0] <= needed[1]
    assert needed[0] < 10**8


def test_a_negative_width_is_refused_beside_the_field_too():
    found = typed("bound", "--norms", "W_QK=2,v=1", "-d", "-3", "--compare")
    assert found.returncode == 2 and "d: wanted a positive width, got -3" in found.stderr
