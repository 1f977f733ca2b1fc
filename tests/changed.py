"""The test files of what changed since the last commit, for `make check`: python tests/changed.py.

A changed file of `src/capax/LAYER/` brings the tests of its layer, a changed test or document
itself. When nothing changed, the tests at the root of the folder are the quick ones. Slow tests
(slow_tests.py) run only where their own file changed.
"""

import subprocess
from pathlib import Path

from slow_tests import SLOW

ROOT = Path(__file__).parents[1]
ALWAYS = ("tests/test_layering.py", "tests/test_public_names.py")


def changed_files() -> list[str]:
    """Names, relative to the root, of files that differ from the last commit or are new."""
    commands = (["diff", "--name-only", "HEAD"], ["ls-files", "--others", "--exclude-standard"])
    said = [
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
        for words in commands
    ]
    return [line for one in said for line in one.stdout.splitlines()]


def tests_of(files: list[str]) -> list[str]:
    """Test files and folders that belong to `files`, without repetition."""
    chosen: list[str] = []
    for name in files:
        parts = Path(name).parts
        if name.startswith("src/capax/") and len(parts) > 3:
            chosen.append(f"tests/{parts[2]}")
        elif name.startswith("tests/") and Path(name).name.startswith("test_"):
            chosen.append(name)
        elif name == "README.md" or name.startswith(("docs/guides/", "docs/users/")):
            session = "\n>>> " in (ROOT / name).read_text() if (ROOT / name).exists() else False
            test = "test_session_prints_what_it_shows" if session else "test_document_runs"
            chosen.append(f"tests/test_documents.py::{test}[{name}]")
    existing = [n for n in dict.fromkeys(chosen) if (ROOT / n.partition("::")[0]).exists()]
    return [name for name in existing if not any(name.startswith(f"{e}/") for e in existing)]


def quick_tests() -> list[str]:
    """Tests of the root modules and of the whole package; files with slow tests are left out."""
    files = sorted((ROOT / "tests").glob("test_*.py"))
    return [str(p.relative_to(ROOT)) for p in files if p.name not in SLOW]


if __name__ == "__main__":
    found = tests_of(changed_files()) or quick_tests()
    print(*dict.fromkeys((*found, *ALWAYS)))
