"""One way through: a file imports only from its own folder and from folders to its left."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "capax"
LAYERS = (
    "boolean",
    "data",
    "attention",
    "capacity",
    "compiler",
    "training",
    "sweep",
    "analysis",
    "figures",
    "report",
    "cli",
)
ROOT_MODULES = {"errors", "files", "identity", "machine"}
FILES = sorted(SOURCE.rglob("*.py"))


def capax_imports(tree: ast.AST) -> set[str]:
    """Second component of every `capax.<name>` that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer: write capax.<layer>"
            module = node.module or ""
            names |= {f"capax.{a.name}" for a in node.names} if module == "capax" else {module}
    return {name.split(".")[1] for name in names if name.startswith("capax.")}


def violations(layer: str, imported: set[str]) -> set[str]:
    allowed = {*LAYERS[: LAYERS.index(layer) + 1], *ROOT_MODULES}
    return imported - allowed


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_only_leftwards(path):
    imported = capax_imports(ast.parse(path.read_text()))
    relative = path.relative_to(SOURCE)
    if len(relative.parts) == 1:
        if relative.stem != "__init__":
            assert imported <= ROOT_MODULES
        return
    assert not violations(relative.parts[0], imported)


def test_the_rule_can_fail():
    tree = ast.parse("from capax.sweep.store import Store\nimport capax.boolean")
    assert violations("data", capax_imports(tree)) == {"sweep"}


def test_every_folder_is_a_layer():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders == set(LAYERS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 320
