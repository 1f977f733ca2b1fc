"""Every command and every program in the README and the guides is run; printed output is compared.

A ```bash block is run as it stands, a ```python block is run as a program, in one scratch folder
per document, in order. A ```text block right after one of them is its true output.
"""

import doctest
import re
from pathlib import Path

import pytest
from markdown import Markdown

from warm_commands import WarmCommands

ROOT = Path(__file__).parents[1]
GUIDES = sorted([*(ROOT / "docs" / "guides").glob("*.md"), *(ROOT / "docs" / "users").glob("*.md")])
# Interactive sessions (`>>> `) are checked by doctest, everything else by running the blocks.
SESSIONS = [guide for guide in GUIDES if "\n>>> " in guide.read_text()]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    # test_user_stories.py runs the page for students and looks at what it writes
    *(guide for guide in GUIDES if guide not in SESSIONS and guide.name != "student.md"),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Set-up commands: the suite itself is started by `make test`, and `make reproduce` takes minutes.
NOT_RUN_HERE = ("make ", "pip install", "git clone", "cd capax")


def blocks(document: Path) -> list[tuple[str, str]]:
    return [(kind, body) for kind, body in BLOCK.findall(document.read_text())]


def run(commands: WarmCommands, kind: str, body: str, folder: Path) -> str:
    if kind == "bash":
        kept = [line for line in body.splitlines() if not line.startswith(NOT_RUN_HERE)]
        result = commands.bash("\n".join(kept), folder)
    else:
        result = commands.python(body, folder)
    assert result.returncode == 0, f"{body}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def same(shown: str, printed: str) -> bool:
    """Equal but for trailing spaces; a line `...` in the document stands for any lines."""
    parts = [re.escape(line.rstrip()) for line in shown.strip().splitlines()]
    pattern = "\n".join(".*" if part == re.escape("...") else part for part in parts)
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_document_runs(document, tmp_path, warm_commands):
    printed, executed = "", 0
    for kind, body in blocks(document):
        if kind in ("bash", "python"):
            printed, executed = run(warm_commands, kind, body, tmp_path), executed + 1
        elif kind == "text":
            assert same(body, printed), f"the document shows\n{body}\nbut it printed\n{printed}"
    assert executed, f"{document.name} shows nothing that runs"


@pytest.mark.parametrize("document", SESSIONS, ids=lambda p: str(p.relative_to(ROOT)))
def test_session_prints_what_it_shows(document):
    failures, tried = doctest.testfile(str(document), module_relative=False)
    assert tried > 0
    assert failures == 0


def test_formulas_are_drawn_and_mistakes_in_them_stop_the_build(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    read = Markdown(extensions=["tools.formulas", "tables"]).convert
    assert read("`$x$` costs \\$5 and $6") == "<p><code>$x$</code> costs $5 and $6</p>"
    page = read(
        "| $\\|M\\|_{p,q}$ |\n|---|\n| $\\mathbb{R}$ |\n\n$$\n\\frac{1}{T}\n$$\n\nso $V_m$."
    )
    assert page.count('role="img"') == page.count("<path d=") == 4 and "$" not in page
    assert 'aria-label="\\|M\\|_{p,q}"' in page and '<div class="formula"' in page
    below = [float(depth) for depth in re.findall(r"vertical-align:(-?[\d.]+)em", page)]
    assert below[0] < -0.1 and below[1] > -0.1 and below[3] < -0.1  # indices reach below the line
    inside = read("1. With $D$\n   $$u=\\frac{M}{D}$$\n   and so on.")  # a block in a list item
    assert inside.count('role="img"') == 2 and "$" not in inside
    with pytest.raises(ValueError, match="nosuch"):
        read(r"$\nosuch{x}$")


def test_every_page_is_in_the_navigation():
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    listed = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(pages) == sorted(listed)


def test_the_comparison_can_fail():
    assert same("a\n...\nd", "a  \nb\nc\nd\n")
    assert not same("a\nb", "a\nc")
    assert not same("a\n...\nd", "a\nb")


def test_programs_find_their_imports_done(warm_commands, tmp_path):
    """With variables of their own they would start from nothing, which works, but takes minutes."""
    said = warm_commands.python("import sys; print('capax.analysis' in sys.modules)", tmp_path)
    assert said.stdout == "True\n"
