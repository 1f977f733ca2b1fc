"""The list of slow tests names tests that exist, and a change brings the tests that it should."""

import ast
from pathlib import Path

import pytest

import changed
from slow_tests import SLOW

TESTS = Path(__file__).parent


@pytest.mark.parametrize("path", SLOW)
def test_names_on_the_list_exist(path):
    tree = ast.parse((TESTS / path).read_text())
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert SLOW[path] <= defined


def test_a_change_brings_its_tests():
    code = [
        "src/capax/boolean/traits/bias.py",
        "tests/boolean/test_bias.py",
        "tests/test_public_names.py",
    ]
    assert changed.tests_of(code) == ["tests/boolean", "tests/test_public_names.py"]
    texts = ["README.md", "docs/guides/covers.md", "docs/theory.md", "src/capax/files.py"]
    assert changed.tests_of(texts) == [
        "tests/test_documents.py::test_document_runs[README.md]",
        "tests/test_documents.py::test_session_prints_what_it_shows[docs/guides/covers.md]",
    ]
