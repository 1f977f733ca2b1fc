"""Hahn's limit: the bound, heads that attain it, compiled heads against all inputs, the command."""

import itertools
import json

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from capax.cli.theory import influence_command as command
from capax.compiler.proof.tables import HeadTables
from capax.errors import InputError
from capax.statements.forms.token_influence import (
    head_influence,
    influence_against_length,
    influence_attained,
    influence_bound,
    smallest_score,
)

pytestmark = pytest.mark.usefixtures("without_layout")

app = typer.Typer()
command.register(app)


@app.callback()
def _commands() -> None:
    """So that the one command keeps its name."""


def run(*words):
    return CliRunner().invoke(app, ["influence", *map(str, words)])


@given(st.integers(1, 30), st.floats(0, 4), st.integers(0, 2**32 - 1))
def test_the_influence_of_a_token_is_attained_and_never_exceeded(T, S, seed):
    assert abs(influence_attained(T, S) - influence_bound(T, S)) < 1e-12
    rng = np.random.default_rng(seed)
    scores, values = rng.uniform(-S, S, T + 1), rng.uniform(-1, 1, T + 1)
    outputs = []
    for _ in range(2):  # the first token changes its score and its value
        scores[0], values[0] = rng.choice([-S, S]), rng.choice([-1.0, 1.0])
        outputs.append(np.exp(scores) @ values / np.exp(scores).sum())
    change = abs(outputs[0] - outputs[1])
    assert change <= influence_bound(T, S) + 1e-12
    assert influence_attained(T, S) > 0.99 * influence_bound(T, S)


def test_a_smaller_bound_is_refuted():
    """One more token in the bound, or scores in a range that is a per cent shorter."""
    for T, S in ((1, 0.1), (10, 1.0), (1000, 3.0)):
        attained = influence_attained(T, S)
        assert attained > influence_bound(T + 1, S) and attained > influence_bound(T, 0.99 * S)


def influence_by_all_inputs(tables, read):
    """The definition: every input, every token flipped, by the forward pass."""
    T = tables.T
    bits = np.array(list(itertools.product((0, 1), repeat=T)))
    outputs = tables.head(bits) @ read
    flipped = [tables.head(np.where(np.arange(T) == t, 1 - bits, bits)) @ read for t in range(T)]
    return max(float(np.abs(outputs - other).max()) for other in flipped)


@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_the_influence_of_a_head_is_that_over_all_inputs(T, kinds, seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, kinds, T)
    logits, values = rng.normal(size=(kinds, 2)), rng.normal(size=(kinds, 2, 2))
    tables = HeadTables.exact(logits[kind], values[kind], rng.normal(), rng.normal(size=2))
    read = rng.normal(size=2)
    found = head_influence(tables, read)
    assert found.measured == pytest.approx(influence_by_all_inputs(tables, read), abs=1e-12)
    assert found.measured <= found.bound * (1 + 1e-12)
    assert found.smallest_S <= found.S + 1e-12


@given(st.integers(1, 10**6), st.floats(0.01, 0.99))
def test_the_smallest_score_allows_the_margin_and_no_smaller_one_does(T, margin):
    S = smallest_score(T, margin)
    assert influence_bound(T, S) >= 2 * margin * (1 - 1e-12)
    if S > 0:
        assert influence_bound(T, 0.999 * S) < 2 * margin


def test_constant_norms_lose_a_token_and_logarithmic_ones_keep_it():
    rows = influence_against_length((10, 100, 1000))
    kept = [row.compiled.measured for row in rows]
    lost = [row.compiled_at_first_norm.measured for row in rows]
    assert min(kept) > 1.4 and lost[0] == kept[0] and lost[2] < 0.3
    norms = np.array([row.norm for row in rows])
    assert np.ptp(np.diff(norms)) < 0.5  # the same step for every factor of ten: a logarithm
    for row in rows:
        for head in (row.compiled, row.compiled_at_first_norm):
            assert head.measured <= head.bound
        assert (
            row.log_attained == pytest.approx(1.0) and row.constant_attained <= row.constant_bound
        )


def test_the_command_prints_and_draws(tmp_path):
    words = ("-T", 50, "--function", "maj(x1,x5,x9)", "--plot", tmp_path / "limit.svg")
    result = run(*words, "--json")
    assert result.exit_code == 0, result.exception
    found = json.loads(result.stdout)
    assert [row["T"] for row in found["rows"]] == [10, 50]
    assert found["rows"][0]["compiled"]["measured"] == pytest.approx(
        found["rows"][0]["compiled_at_first_norm"]["measured"]
    )
    assert b"<svg" in (tmp_path / "limit.svg").read_bytes()
    assert "order log T" in run("-T", 10).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-T", 9), "T: wanted an integer in 10"),
        (("-T", 10**7), "T: wanted an integer in 10"),
        (("--scores", -1, "-T", 10), "S: wanted a finite number >= 0"),
        (("--scores", "nan", "-T", 10), "S: wanted a finite number >= 0"),
        (("--margin", 1, "-T", 10), "margin: wanted a number in (0, 1)"),
        (("--function", "x0 ^ x1", "-T", 10), "function: not a threshold"),
        (("--function", "x0 & x77", "-T", 100), "x77"),
        (("--function", "x0 &", "-T", 10), "formula"),
        (("--plot", "x.bmp"), "bmp"),
    ],
)
def test_mistakes(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert isinstance(result.exception, InputError) and message in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_heads_with_too_many_kinds_are_refused():
    T = 30
    logits = np.arange(2.0 * T).reshape(T, 2)
    tables = HeadTables.exact(logits, np.zeros((T, 2, 1)), 0.0, np.zeros(1))
    with pytest.raises(InputError, match="head: too many kinds of tokens"):
        head_influence(tables, np.ones(1))
