"""Every name in the registry exists, and docs/theory.md is the registry."""

import ast
import importlib
from pathlib import Path

import pytest

from capax.capacity.statements import STATEMENTS, constants_table, markdown_table

ROOT = Path(__file__).parents[2]
FUNCTIONS = sorted({name for s in STATEMENTS for name in s.functions})
TESTS = sorted({name for s in STATEMENTS for name in s.tests})
REQUIRED = (
    "Definition 2.1", "Definition 2.2", "Definition 3.1", "Definition 3.2", "Lemma 2.2",
    "Lemma 4.3", "Lemma 4.6", "Theorem 4.2", "Theorem 4.7", "Corollary 4.5", "Proposition 5",
)  # fmt: skip


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


@pytest.mark.parametrize("number", REQUIRED)
def test_the_paper_is_covered(number):
    assert any(s.number.startswith(number) for s in STATEMENTS)


def test_the_page_is_the_registry():
    page = (ROOT / "docs" / "theory.md").read_text()
    assert markdown_table() in page
    assert constants_table() in page
    for erratum in range(1, 23):
        assert f"**E{erratum}**" in page
