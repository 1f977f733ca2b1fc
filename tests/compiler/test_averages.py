"""Heads that average: every input at small T, tight errors, files, planted faults, the command."""

import itertools
import json
import math

import jax
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import capax
from capax.attention import checkpoint
from capax.cli.networks import compile as compile_command
from capax.cli.networks import verify as verify_command
from capax.compiler.extensions.averages import certify_average, compile_average, parse_average
from capax.compiler.verified.average_file import save_average
from capax.compiler.weights_file import AVERAGE
from capax.errors import InfeasibleError, InputError

CASES = [
    ("mean(all)", 7, 2),
    ("mean(all)", 4, 5),
    ("mean(x1)", 6, 2),
    ("mean(x0..x2, x5)", 7, 2),
    ("mean(x3, x1)", 5, 3),
    ("mean(1, 2; all)", 5, 4),
    ("mean(0, 3; all)", 5, 4),
    ("mean(0,1 ; all)", 1, 3),
]
app = typer.Typer()
compile_command.register(app)
verify_command.register(app)


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def plain_means(text, symbols):
    """The mean by its definition; None where no token is a member."""
    inside = text[text.index("(") + 1 : text.index(")")]
    if ";" in inside:
        kinds = {int(c) for c in inside.split(";")[0].split(",")}
        chosen = [[c for c in row if c in kinds] for row in symbols]
    elif inside == "all":
        chosen = symbols.tolist()
    else:
        members = []
        for part in inside.replace("x", "").split(","):
            ends = [int(t) for t in part.split("..")]
            members += range(ends[0], ends[-1] + 1)
        chosen = symbols[:, members].tolist()
    return [math.fsum(row) / len(row) if row else None for row in chosen]


def outputs(model, symbols):
    """The head by its definition: one-hot position plus one-hot symbol, [CLS] last."""
    W_Q, W_K, W_V = (np.asarray(M, np.float64) for M in (model.W_Q, model.W_K, model.W_V))
    (n, T), unit = symbols.shape, np.eye(len(W_Q))
    X = np.concatenate([unit[:T] + unit[T + symbols], np.tile(unit[-1], (n, 1, 1))], axis=1)
    weights = np.exp(X @ W_K @ (X[:, -1:] @ W_Q).transpose(0, 2, 1))  # [n, T + 1, 1]
    return (weights * (X @ W_V)).sum(axis=(1, 2)) / weights.sum(axis=(1, 2))


@pytest.mark.parametrize(("text", "T", "M"), CASES)
def test_the_error_is_that_of_all_inputs(text, T, M):
    made = compile_average(text, T, alphabet=M, eps=0.05)
    symbols = np.array(list(itertools.product(range(M), repeat=T)))
    wanted = plain_means(text, symbols)
    found = outputs(made.model, symbols)
    worst = max(abs(y - mean) for y, mean in zip(found, wanted, strict=True) if mean is not None)
    c = made.certificate
    assert worst <= c.worst_case_error * (1 + 1e-12) + 1e-15 and c.worst_case_error <= 0.05
    assert c.attained_error <= worst + 1e-12 and c.worst_case_error - c.attained_error < 1e-9


def test_averages_of_everything_need_no_scores_and_shares_no_growing_ones():
    for T in (10, 1000, 100_000):
        whole = compile_average("mean(all)", T).certificate
        assert whole.norms["W_QK_F"] == 0.0 and whole.worst_case_error < 1e-9
    halves = [compile_average(f"mean(x0..x{T // 2 - 1})", T).certificate.a for T in (10, 10_000)]
    assert halves[0] == pytest.approx(halves[1])
    lone = [compile_average("mean(x7)", T).certificate.a for T in (10, 100, 1000)]
    assert np.diff(lone) == pytest.approx(math.log(10), abs=0.12)  # order log T for one member


@pytest.mark.parametrize(("text", "T", "M"), [CASES[0], CASES[3], CASES[5]])
@pytest.mark.parametrize("name", ["W_Q", "W_K", "W_V"])
def test_a_changed_weight_changes_the_certificate(text, T, M, name, tmp_path):
    made = compile_average(text, T, alphabet=M, eps=0.05)
    weights = np.array(getattr(made.model, name))
    weights[-1 if name == "W_Q" else T + 1] += 0.5
    weights[-1] += 0.5  # where W_QK = 0, one factor alone changes nothing
    changed = {"W_Q": np.array(made.model.W_Q), "W_K": np.array(made.model.W_K), name: weights}
    if text == "mean(all)" and name != "W_V":
        changed = dict.fromkeys(("W_Q", "W_K"), weights)
    with jax.enable_x64(True):
        fields = {n: jax.device_put(M) for n, M in changed.items()}
        model = type(made.model)(**{**vars(made.model), **fields})
    path = tmp_path / "w.safetensors"
    metadata = {"kind": AVERAGE, "certificate": made.certificate.to_json()}
    checkpoint.save(path, model, metadata)
    try:
        verdict = capax.verify(path)
    except InputError as error:  # scores that depend on what they must not depend on
        assert "certificate: head: wanted scores" in str(error)
        return
    assert not verdict.ok and {claim.name for claim in verdict.failed} & {
        "worst_case_error", f"norms.{name}_F",
    }  # fmt: skip


def test_files_are_verified_and_lies_are_found(tmp_path):
    made = compile_average("mean(1, 2; all)", 1000, alphabet=4)
    path = save_average(tmp_path / "w.safetensors", made)
    assert capax.verify(path).ok
    honest = made.certificate.to_json()
    for name, lie in (
        ("worst_case_error", 0.5 * honest["worst_case_error"]), ("eps", 1e-6), ("T", 999),
        ("function", "mean(0, 2; all)"), ("members", [1]), ("attained_error", 1.0),
        ("norms", {}), ("alphabet", 5), ("worst_case_error", "small"),
    ):  # fmt: skip
        claims = {**honest, name: lie}
        checkpoint.save(path, made.model, {"kind": AVERAGE, "certificate": claims})
        assert not capax.verify(path).ok, name
    checkpoint.save(path, made.model, {"kind": AVERAGE, "certificate": {**honest, "function": 3}})
    with pytest.raises(InputError, match="function: wanted a formula"):
        capax.verify(path)


def test_the_read_out_must_be_plain():
    made = compile_average("mean(all)", 5)
    with jax.enable_x64(True):
        doubled = type(made.model)(**{**vars(made.model), "w": 2 * made.model.w})
    with pytest.raises(InputError, match="W_C: wanted a read-out of 1"):
        certify_average(doubled, parse_average("mean(all)", 5, 2), "mean(all)", 0.1, 0.0)


def test_the_command_writes_what_verify_accepts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = json.loads(run("compile", "mean( x0..x99 )", "-T", 1000, "--json").stdout)
    assert content["members"] == 100 and content["worst_case_error"] <= content["eps"] == 0.01
    assert run("verify", "weights.safetensors").exit_code == 0
    assert "proved" in run("compile", "mean(all)", "-T", 50, "--dry-run").stdout
    shown = run("compile", "mean(1,2;all)", "-T", 50, "--alphabet", 3, "-o", "other.safetensors")
    assert "tokens that are 1 or 2" in shown.stdout
    assert {p.name for p in tmp_path.iterdir()} == {"weights.safetensors", "other.safetensors"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mean()",), "formula: wanted positions such as x3"),
        (("mean(x9)",), "below T = 9"),
        (("mean(x5..x2)",), "positions in order"),
        (("mean(x1",), "formula: wanted mean(all)"),
        (("mean(x1) & x2",), "formula: wanted mean(all)"),
        (("mean(1, 2; x1)", "--alphabet", 4), "all after the symbols"),
        (("mean(1, 4; all)", "--alphabet", 4), "symbols below the alphabet of 4"),
        (("mean(1; all)", "--alphabet", 4), "two or more symbols"),
        (("mean(0,1; all)",), "but not all"),
        (("mean(a; all)",), "symbols such as 1, 2"),
        (("mean(all)", "--eps", 0), "eps: wanted an error > 0"),
        (("mean(all)", "--eps", "nan"), "eps: wanted an error > 0"),
        (("mean(x1)", "--eps", 1e-300), "eps: wanted 1e-300"),
        (("mean(x1)", "--eps", 1e-15), "float64 reaches"),
        (("mean(all)", "--alphabet", 1), "alphabet: wanted an integer in 2"),
        (("mean(all)", "--alphabet", 10**6), "alphabet: wanted an integer in 2"),
        (("mean(all)", "--family", "general"), "--family: wanted no such option"),
        (("mean(all)", "--plot", "x.png"), "--plot: wanted no such option"),
        (("mean(all)", "--method", "paper"), "--method: wanted no such option"),
        (("mean(all)", "-o", "missing/w.safetensors"), "does not exist"),
    ],
)
def test_mistakes(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("compile", words[0], "-T", 9, *words[1:])
    assert isinstance(result.exception, InputError | InfeasibleError)
    assert message in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_extreme_lengths():
    with pytest.raises(InputError, match="T: wanted an integer in 1"):
        compile_average("mean(all)", 10**9)
    with pytest.raises(InputError, match="T: wanted an integer in 1"):
        compile_average("mean(all)", 0)
