"""`capax compile` and `capax verify` as a user runs them."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import typer
from forward_pass import outputs
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

import capax
from capax.capacity.margins.decision import threshold_of
from capax.cli.networks import compile as compile_command
from capax.cli.networks import verify as verify_command
from capax.errors import CapaxError

pytestmark = pytest.mark.usefixtures("without_layout")

app = typer.Typer()
compile_command.register(app)
verify_command.register(app)


def test_compile_then_verify_then_tamper(tmp_path: Path, warm_commands):
    capax = partial(warm_commands.capax, folder=tmp_path)
    made = capax("compile", "x2 & x3 & x10", "-T", "1000", "--json")
    assert made.returncode == 0, made.stderr
    certificate = json.loads(made.stdout)
    keys = "function T s family encoding worst_case_error margin mlp_units norms sample_size"
    assert set(keys.split()) <= set(certificate)
    assert (certificate["T"], certificate["s"], certificate["mlp_units"]) == (1000, 3, 0)
    assert {"frobenius", "spectral", "norm_2_1"} <= set(certificate["norms"]["W_QK"])
    checked = capax("verify", "weights.safetensors", "--json")
    assert checked.returncode == 0 and json.loads(checked.stdout)["ok"] is True

    path = tmp_path / "weights.safetensors"
    with safe_open(str(path), framework="np") as file:
        header = file.metadata()
        arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    arrays["W_V"][2] *= 1.01
    save_file(arrays, str(path), metadata=header)
    tampered = capax("verify", "weights.safetensors", "--json")
    verdict = json.loads(tampered.stdout)
    assert tampered.returncode == 1 and verdict["ok"] is False
    assert "worst_case_error" in verdict["failed"]
    shown = CliRunner().invoke(app, ["verify", str(path)])
    assert shown.exit_code == 1 and "NOT OK" in shown.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x1 & x9", "-T", "9"], "x9"),
        (["x1 &", "-T", "9"], "formula"),
        (["x1", "-T", "0"], "T:"),
        (["x1", "-T", "5", "--eps", "0", "--family", "monotone-symmetric"], "eps = 0"),
        (["x1 ^ x2", "-T", "5", "--family", "monotone-symmetric"], "not monotone"),
        (["x1", "-T", "5", "--encoding", "none"], "encoding:"),
        (["x1", "-T", "5", "-o", "missing/w.safetensors"], "does not exist"),
        (["x1", "-T", "5", "-o", "mine.txt"], "not written by capax compile"),
        (["x1", "-T", "5", "--plot", "picture.bmp"], ".png"),
        (["x1", "-T", "5", "--encoding", "bag", "--transformer-lens", "l.safetensors"], "encoding"),
    ],
)
def test_bad_input_leaves_one_line_and_no_file(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("keep me")
    result = CliRunner().invoke(app, ["compile", *words])
    assert isinstance(result.exception, CapaxError) and result.exception.exit_code == 2
    assert message in str(result.exception) and "\n" not in str(result.exception)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    assert (tmp_path / "mine.txt").read_text() == "keep me"


@pytest.mark.parametrize("formula", ["x1 & x2 & x5", "maj(x0, x1, x4)", "x1 ^ x2"])
def test_a_distance_from_the_target_is_not_called_an_error(formula, tmp_path, monkeypatch):
    """The least head leaves the output almost 1/2 from its target and decides every input right:
    what is printed of it is the count of wrong decisions, which brute force finds, then the
    distance as a distance. "Error on all inputs <= 0.5" would read as half of them wrong."""
    monkeypatch.chdir(tmp_path)
    made = capax.compile(formula, T=7)
    inputs = np.arange(2**7)[:, None] >> np.arange(7) & 1
    labels = made.construction.function(inputs)
    assert ((outputs(made.model, inputs) > threshold_of(made.model)) == labels).all()
    assert (formula == "x1 ^ x2") == (made.certificate.worst_case_error < 0.4)
    printed = CliRunner().invoke(app, ["compile", formula, "-T", "7", "--dry-run"]).stdout
    for text in (printed, made._repr_html_()):
        plain = re.sub(r"<[^>]+>|\s+", " ", text)
        assert re.search(r"wrong decisions +0 of 2\^7 .*output +within [0-9.e-]+ of its", plain)
        assert not re.search(r"error[^.]*all (2\^7 )?inputs|error[^a-z]*0\.[45]", plain)


def test_outputs_for_people_and_for_other_tools(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["x1 ^ x2", "-T", "12", "--plot", "p.png", "--transformer-lens", "lens.safetensors"]
    result = CliRunner().invoke(app, ["compile", *words])
    assert result.exit_code == 0, result.exception
    assert "of its target on all 2^12 inputs" in result.stdout and "(vacuous in" in result.stdout
    assert "wrong decisions" in result.stdout and "worst-case error" not in result.stdout
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with safe_open(str(tmp_path / "lens.safetensors"), framework="np") as file:
        assert "blocks.0.attn.W_Q" in file.keys()  # noqa: SIM118
        assert np.isfinite(file.get_tensor("blocks.0.mlp.W_in")).all()
    dry = CliRunner().invoke(
        app, ["compile", "x1", "-T", "9", "--dry-run", "-o", "none.safetensors"]
    )
    assert dry.exit_code == 0 and not (tmp_path / "none.safetensors").exists()
