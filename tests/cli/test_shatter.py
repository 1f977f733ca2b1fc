"""`capax shatter` as a user types it: numbers, picture, exit codes."""

import json

import pytest
import typer
from typer.testing import CliRunner

from capax.cli.theory import shatter
from capax.errors import InputError

pytestmark = pytest.mark.usefixtures("without_layout")

app = typer.Typer()
shatter.register(app)


@app.callback()
def _commands() -> None:
    """So that the one command keeps its name."""


def run(*words):
    return CliRunner().invoke(app, ["shatter", *map(str, words)])


def test_all_patterns_with_their_norm(tmp_path):
    result = run("-T", 64, "--json", "--plot", tmp_path / "patterns.png")
    assert result.exit_code == 0, result.exception
    found = json.loads(result.stdout)
    assert (found["T"], found["inputs"], found["patterns"]) == (64, 6, 64)
    assert found["verified"] is True and found["norm"] == 4096
    assert 0.09 < found["smallest_norm"] / 4096 < 0.092
    assert found["corollary_4_5_by_norms"] > 1000 * found["corollary_4_5"] > found["log_patterns"]
    assert (tmp_path / "patterns.png").read_bytes().startswith(b"\x89PNG")


def test_a_norm_that_is_too_small_for_float64_is_not_called_proved():
    result = run("-T", 64, "--norm", 0.1)
    assert result.exit_code == 1 and "NOT all proved" in result.stdout


def test_mistakes_leave_no_picture(tmp_path):
    for words, message in (
        (("-T", 12), "T: wanted a power of two"),
        (("-T", 8, "--margin", 0.7), "margin: wanted a number in"),
        (("-T", 8, "--norm", -1), "norm: wanted a finite number"),
        (("-T", 8, "--plot", tmp_path / "x.bmp"), "bmp"),
    ):
        result = run(*words)
        assert isinstance(result.exception, InputError) and message in str(result.exception)
    assert not list(tmp_path.iterdir())
