"""Every number of the paper has one row; every name in a row exists; docs/theory.md is the list."""

import ast
import importlib
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from capax.cli.theory import theorems as command
from capax.errors import InputError
from capax.statements.checking import CHECKS
from capax.statements.comparison import COMPARISONS, compare
from capax.statements.registry import STATEMENTS, constants_table, find, markdown_table

ROOT = Path(__file__).parents[2]
FUNCTIONS = sorted({name for s in STATEMENTS for name in s.functions})
TESTS = sorted({name for s in STATEMENTS for name in s.tests})
PAPER = (
    "Definition 2.1", "Lemma 2.2", "Definition 3.1", "Definition 3.2", "Assumption 4.1",
    "Theorem 4.2", "Lemma 4.3", "Proposition 4.4", "Corollary 4.5", "Lemma 4.6", "Theorem 4.7",
    "Proposition 5.1", "Definition A.1", "Lemma A.2", "Corollary A.3", "Theorem A.4", "Lemma A.5",
    "Lemma A.6", "Corollary A.7", "Lemma A.8", "Lemma A.9", "Lemma A.10", "Lemma A.11",
    "Lemma A.12", "Lemma A.13", "Lemma A.14", "Lemma A.15", "Lemma A.16", "Theorem A.17",
    "Proposition B.1", "Lemma B.2", "Lemma B.3", "Lemma B.4", "Lemma B.5", "Lemma B.6",
    "Lemma B.7", "Lemma B.8",
)  # fmt: skip

app = typer.Typer()
command.register(app)


@app.callback()
def _commands() -> None:
    """So that the one command keeps its name."""


def run(*words):
    return CliRunner().invoke(app, ["theorems", *words])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_exists_and_says_what_it_does(name):
    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute)
    assert callable(function)
    assert function.__doc__


@pytest.mark.parametrize("name", TESTS)
def test_test_exists(name):
    file, _, function = name.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_number_of_the_paper_once():
    labels = [s.label for s in STATEMENTS]
    assert len(labels) == len(set(labels))
    numbered = [s.label for s in STATEMENTS if s.in_paper and s.kind]
    assert numbered == list(PAPER)
    assert all(s.tests and s.functions for s in STATEMENTS)
    assert {s.number for s in STATEMENTS if s.in_paper} == set(CHECKS)


def test_the_page_is_the_registry():
    page = (ROOT / "docs" / "theory.md").read_text()
    assert markdown_table() in page
    assert constants_table() in page
    for erratum in range(1, 23):
        assert f"**E{erratum}**" in page


def test_a_number_is_found_exactly_or_by_a_part():
    assert [s.number for s in find("a.1")] == ["A.1"]
    assert [s.number for s in find("Lemma B.8")] == ["B.8"]
    assert len(find("Lemma")) > 10 and find("no such") == []


@pytest.mark.parametrize("number", sorted(COMPARISONS))
def test_both_numbers(number):
    numbers = compare(number, {})
    assert numbers is not None and number in {s.number for s in STATEMENTS}
    assert numbers["paper"] > 0 and numbers["ours"] > 0
    best = numbers.get("corrected", numbers["paper"])
    repaired = number in ("A.4", "B.2", "B.4", "B.8")  # the print is too small there
    assert numbers["ours"] <= best * (1 + 1e-9) or repaired


def test_explain_shows_both_numbers_and_errata():
    shown = run("A.17", "--explain", "--norms", "layers=2,B_w=1000").stdout
    assert "layers = 2" in shown and "B_w = 1000" in shown
    rows = json.loads(run("A.17", "--explain", "--norms", "B_w=1000", "--json").stdout)
    numbers = rows["statements"][0]["numbers"]
    assert numbers["paper"] < numbers["corrected"] and numbers["ours"] < numbers["corrected"]
    assert [e["name"] for e in rows["statements"][0]["errata"]] == ["P10", "P11", "P12"]
    assert json.loads(run("2.1", "--explain", "--json").stdout)["statements"][0]["numbers"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("no such",), "number: wanted part of one of"),
        (("A.17", "--norms", "B_w=1"), "--norms: wanted --explain beside it"),
        (("A.17", "--explain", "--norms", "B_w"), "--norms: wanted name=value pairs"),
        (("A.17", "--explain", "--norms", "x=1"), "norms: wanted names among layers"),
        (("A.17", "--explain", "--norms", "layers=1.5"), "layers: wanted an integer"),
        (("A.17", "--explain", "--norms", "layers=100000"), "layers: wanted an integer in 1..1000"),
        (
            ("A.17", "--explain", "--norms", "layers=500,C_2=1e5"),
            "norms: wanted parameters for which",
        ),
        (("4.5", "--explain", "--norms", "T=1e400"), "T: wanted an integer in 1.."),
        (("4.4", "--explain", "--norms", "T=12"), "T: wanted a power of two"),
        (("B.2", "--explain", "--norms", "gamma=0"), "gamma: wanted a number in (0, 1]"),
        (("B.2", "--explain", "--norms", "Delta=0.9"), "Delta: wanted a number below 1/(2s - 1)"),
        (("B.7", "--explain", "--norms", "s=200"), "s: wanted at most T = 100"),
        (("A.7", "--explain", "--norms", "distance=-1"), "distance: wanted a finite number >= 0"),
        (("A.3", "--explain", "--norms", "C=nan"), "C: wanted a finite number > 0"),
        (("2.2", "--explain", "--norms", "delta=2"), "delta: wanted a number strictly between"),
        (("Lemma", "--explain", "--norms", "T=9"), "number: wanted one statement"),
        (("Certificate", "--check"), "number: wanted a statement of the paper"),
    ],
)
def test_mistakes(words, message):
    result = run(*words)
    assert isinstance(result.exception, InputError) and message in str(result.exception)


def test_check_tells_truth_and_counterexamples(monkeypatch):
    result = run("B.8", "--check", "--json")
    rows = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [set(row) >= {"number", "holds", "seconds"} for row in rows] == [True]
    assert rows[0]["holds"] and len(rows[0]["errata"]) == 3
    assert "as printed it fails" in run("B.8", "--check").stdout
    from capax.statements import checking
    from capax.statements.instances.small_instance import SmallInstance

    monkeypatch.setitem(checking.CHECKS, "A.9", lambda: SmallInstance(False, "planted: 2 <= 1"))
    broken = run("A.9", "--check")
    assert broken.exit_code == 1 and "FALSE" in broken.stdout and "planted" in broken.stdout


@pytest.mark.parametrize("number", sorted(CHECKS))
def test_every_statement_holds_on_its_instance(number):
    assert CHECKS[number]().holds
