"""Runs the notebooks of the course in a kernel, as a reader does: `make course`.

Nothing is kept. A lesson that fails, or takes more than two minutes, ends with exit code 1.
"""

import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

COURSE = Path(__file__).parents[1] / "course"
LIMIT = 120.0  # seconds for a lesson


def seconds_of(path: Path) -> float:
    """How long a lesson runs, from the start of its kernel."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        book = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": folder}}
        NotebookClient(book, timeout=LIMIT, kernel_name="python3", resources=resources).execute()
    return time.perf_counter() - began


def main() -> int:
    """Run all lessons; 1 if one fails or is too slow."""
    failed = 0
    for path in sorted(COURSE.glob("*.ipynb")):
        try:
            seconds = seconds_of(path)
        except CellExecutionError as error:
            print(f"{path.name}: {error}")
            failed += 1
            continue
        print(f"{path.name}: {seconds:.1f} s")
        failed += seconds > LIMIT
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
