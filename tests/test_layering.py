"""A file imports only from its own folder and from folders to its left."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "capax"
# The layers from left to right. A layer with folders inside lists them in order; "." stands for the
# files of the layer itself, which come before its folders or after them.
LAYERS: dict[str, tuple[str, ...]] = {
    "boolean": (".", "traits", "consistent", "best_possible"),
    "data": (".",),
    "attention": ("parts", ".", "collapsed"),
    "capacity": (
        ".",
        "covers",
        "complexity",
        "linear",
        "network",
        "weights",
        "margins",
        "certificates",
        "routes",
    ),
    "compiler": (
        "parts",
        "construction",
        "proof",
        "certificate",
        ".",
        "paper",
        "extensions",
        "verified",
    ),
    "statements": ("rows", "forms", "instances", "."),
    "training": (
        "specs",
        "alarm",
        "steps",
        "fused",
        "dropout",
        "recurrent",
        "programs",
        "slots",
        ".",
        "speed",
    ),
    "learners": (".",),
    "decompile": ("reading", "machine", "proof", "modules", "bounds", "."),
    "proving": (".",),
    "sweep": (".", "searching", "experiments", "families", "storage", "running"),
    "analysis": (".", "tables", "reference", "times"),
    "cards": ("protocol", "measuring", "answers", "."),
    "audit": ("reading", "layouts", "heads", "text", "."),
    "figures": (".", "theory", "heads", "experiments", "stored", "paper"),
    "report": (".",),
    "lab": ("exercises", "views", "running", "."),
    "cli": ("speaking", "theory", "networks", "experiments", "publishing", "machine", "."),
}
ORDER = [(layer, folder) for layer, folders in LAYERS.items() for folder in folders]
# Folders that hold one part of their layer and stand in no order to the files beside them.
UNORDERED = {"learners": {"zoo"}}
ROOT_MODULES = {
    "array_files",
    "callable_packages",
    "errors",
    "files",
    "foreign",
    "html",
    "identity",
    "machine",
    "plain_json",
    "progress",
    "reading",
    "rounding",
    "terminal",
}
FILES = sorted(SOURCE.rglob("*.py"))


def place(parts: tuple[str, ...]) -> tuple[str, str]:
    """Layer and folder of a dotted path below `capax`, given as its parts."""
    layer, rest = parts[0], parts[1:]
    return layer, rest[0] if rest and rest[0] in LAYERS.get(layer, ()) else "."


def capax_imports(tree: ast.AST) -> set[tuple[str, ...]]:
    """What follows `capax.` in every import of a file, wherever it stands in the file."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer: write capax.<layer>"
            module = node.module or ""
            below = module == "capax" or module.removeprefix("capax.") in LAYERS
            names |= {f"{module}.{a.name}" for a in node.names} if below else {module}
    return {tuple(name.split(".")[1:]) for name in names if name.startswith("capax.")}


def violations(where: tuple[str, str], imported: set[tuple[str, ...]]) -> set[str]:
    """Imports that run back. A whole folder (`capax.capacity`) is all its folders at once."""
    own = ORDER.index(where)
    wrong: set[str] = set()
    for parts in imported:
        if parts[0] in ROOT_MODULES:
            continue
        layer, folder = place(parts)
        whole = len(parts) == 1 and layer != where[0]
        last = (layer, LAYERS[layer][-1]) if whole and layer in LAYERS else (layer, folder)
        if last not in ORDER or ORDER.index(last) > own:
            wrong.add(".".join(parts))
    return wrong


PLAIN = re.compile(r"^ *(from [\w.]+ import (?:\([^)]*\)|[^(\n]+)|import [^\n]+)$", re.MULTILINE)


def import_lines(source: str) -> str:
    """The imports of a file, one below the other: to parse all files whole takes three seconds.

    A file with the word elsewhere than at the beginning of a plain import is given back whole.
    """
    left = PLAIN.sub("", source)
    return source if re.search(r"\bimport\b", left) else "\n".join(PLAIN.findall(source))


def back_imports(path: Path) -> set[str]:
    """Imports of a file that run back."""
    imported = capax_imports(ast.parse(import_lines(path.read_text())))
    relative = path.relative_to(SOURCE)
    if len(relative.parts) == 1:
        outside = {parts[0] for parts in imported} - ROOT_MODULES
        return set() if relative.stem == "__init__" else outside
    where = place(relative.with_suffix("").parts)
    if relative.stem == "__init__" and len(relative.parts) == 2:
        where = (where[0], LAYERS[where[0]][-1])  # a package may export from all of its folders
    return violations(where, imported)


def test_imports_only_leftwards():
    assert len(FILES) > 400
    assert {path: found for path in FILES if (found := back_imports(path))} == {}


@pytest.mark.parametrize(
    "where, planted, wrong",
    [
        (("data", "."), "from capax.sweep.storage.store import Store", {"sweep.storage.store"}),
        (("data", "."), "import capax.boolean", set()),
        (("capacity", "covers"), "from capax.capacity.linear.cover_pieces import Piece",
         {"capacity.linear.cover_pieces"}),
        (("capacity", "covers"), "from capax.capacity import linear", {"capacity.linear"}),
        (("capacity", "."), "from capax.capacity.covers.metrics import FiniteSpace",
         {"capacity.covers.metrics"}),
        (("capacity", "linear"), "from capax.capacity.covers.metrics import FiniteSpace", set()),
        (("compiler", "proof"), "from capax.compiler.compiling import compile",
         {"compiler.compiling"}),
        (("data", "."), "import capax.unheard_of", {"unheard_of"}),
    ],
)  # fmt: skip
def test_a_planted_back_import_is_found(where, planted, wrong):
    for source in (planted, f"def f():\n    {planted}\n    return 1\n", f"if 1: {planted}"):
        assert violations(where, capax_imports(ast.parse(import_lines(source)))) == wrong


def test_imports_in_brackets_are_found_whole():
    source = "from capax.capacity import (\n    covers,\n    linear,\n)\n"
    found = capax_imports(ast.parse(import_lines(source)))
    assert found == {("capacity", "covers"), ("capacity", "linear")}


def test_every_folder_is_known():
    def folders(path):
        return {p.name for p in path.iterdir() if p.is_dir() and any(p.glob("*.py"))}

    assert folders(SOURCE) == set(LAYERS)
    for layer, inner in LAYERS.items():
        inside = {folder for folder in inner if folder != "."} | UNORDERED.get(layer, set())
        assert folders(SOURCE / layer) == inside


def test_the_picture_in_contributing_is_the_order():
    page = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text()
    assert " -> ".join(LAYERS) in " ".join(page.split())
    for layer, folders in LAYERS.items():
        if len(folders) > 1:
            assert " -> ".join(folders).replace(".", layer) in " ".join(page.split())


LONG = {"capax_check.py": 500}  # one file on purpose: strangers copy it and read it whole


def test_files_stay_short():
    size = {path: len(path.read_text().splitlines()) for path in FILES}
    assert [path for path in FILES if size[path] > LONG.get(path.name, 320)] == []


def names_used_twice(sources: dict[Path, str]) -> set[str]:
    """Names of files, and of classes (private ones too), that stand for two things."""
    files = Counter(path.stem for path in sources if not path.name.startswith("__"))
    named = re.compile(r"^class (\w+)", re.MULTILINE)
    classes = Counter(
        name.lstrip("_") for source in sources.values() for name in named.findall(source)
    )
    return {name for names in (files, classes) for name, count in names.items() if count > 1}


def test_one_name_for_one_idea():
    sources = {path: path.read_text() for path in FILES}
    assert names_used_twice(sources) == set()
    planted = {Path("elsewhere/bound.py"): "class _Bound: ..."}
    assert names_used_twice({**sources, **planted}) == {"Bound", "bound"}


def test_no_two_test_files_have_one_name():
    """Folders of tests are no packages: of two files with one name only one is collected."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []
