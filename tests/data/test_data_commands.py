"""`capax data` and `capax function`, run as a user runs them."""

import json

import numpy as np
import pytest

from capax.boolean import parse
from capax.cli.experiments.data import _probability, _support
from capax.cli.theory.function import describe
from capax.errors import InputError
from typed_command import typed


def test_data_writes_a_file_and_tells_what_is_in_it(tmp_path, warm_commands):
    ran = warm_commands.capax(
        "data", "maj(x1,x5,x9)", "-T", "50", "-m", "200", "--seed", "0", "--out", "data.npz",
        "--json", folder=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["support"] == [1, 5, 9] and summary["p"] == 0.5 and summary["rejections"] == 0
    with np.load(tmp_path / "data.npz") as stored:
        X, y = stored["X_train"], stored["y_train"]
    assert X.shape == (200, 50) and y.sum() == summary["train"]["ones"]
    assert np.array_equal(y, X[:, [1, 5, 9]].sum(axis=1) >= 2)


def test_data_options_and_notes():
    ran = typed(
        "data", "x1 & x2 | x1 & ~x2", "-T", "20", "-m", "9", "--support", "7", "--p", "0.25",
        "--validation-size", "10", "--keep-ambiguous",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "on x7" in ran.stdout and "P(bit = 1) = 0.25" in ran.stdout
    assert (
        "not checked" in ran.stdout and ran.stderr == "note: x2 does not matter and was dropped\n"
    )


def test_data_mistakes_are_one_line():
    for arguments, message in (
        (("x60", "-T", "50"), "error: x60: out of range for T = 50; positions are 0-based"),
        (("and3", "-T", "50", "--out", "x.txt"), "error: out: wanted a name ending in .npz"),
    ):
        ran = typed("data", *arguments, "-m", "5")
        assert ran.returncode == 2 and ran.stdout == ""
        assert ran.stderr.startswith(message) and ran.stderr.count("\n") == 1


def test_options_that_cannot_be_read():
    with pytest.raises(InputError, match="p: wanted a number or 'balanced', got 'half'"):
        _probability("half")
    with pytest.raises(InputError, match=r"support: wanted .* got 'a,b'"):
        _support("a,b")
    assert _probability("0.5") == 0.5 and _support("2,3") == (2, 3)


def test_function_prints_properties(warm_commands):
    shown = warm_commands.capax("function", "maj(x1,x5,x9)")
    assert shown.returncode == 0 and "x1, x5, x9" in shown.stdout and shown.stderr == ""
    report = json.loads(typed("function", "and3", "--json").stdout)
    assert report["monotone"] and report["degree"] == 3 and report["bias"] == 0.125
    assert report["leap"] == 1
    assert np.isclose(report["balancing_p"][0], 2 ** (-1 / 3))
    assert report["influences"] == {"x0": 0.25, "x1": 0.25, "x2": 0.25}
    constant = describe("x1 | ~x1", parse("x1 | ~x1"), 0.5)
    assert constant["balancing_p"] == [] and constant["notes"] == [
        "x1 does not matter and was dropped"
    ]
