"""Runs the notebooks of the course in a kernel, as a reader does: `make course`.

Nothing is kept. A lesson that fails, or takes more than two minutes of the processor, ends with
exit code 1: on a busy machine the clock says little.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

COURSE = Path(__file__).parents[1] / "course"
LIMIT = 120.0  # seconds of the processor for a lesson
PATIENCE = 1800  # seconds by the clock for a cell


def own_time() -> float:
    """Seconds of the processor that ended children took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds_of(path: Path) -> tuple[float, float]:
    """How long a lesson runs, by the processor and by the clock, with the start of its kernel."""
    began, used = time.perf_counter(), own_time()
    with tempfile.TemporaryDirectory() as folder:
        book = nbformat.read(path, as_version=4)
        resources = {"metadata": {"path": folder}}
        NotebookClient(book, timeout=PATIENCE, kernel_name="python3", resources=resources).execute()
    return own_time() - used, time.perf_counter() - began


def main() -> int:
    """Run all lessons; 1 if one fails or is too slow."""
    failed = 0
    for path in sorted(COURSE.glob("*.ipynb")):
        try:
            seconds, clock = seconds_of(path)
        except CellExecutionError as error:
            print(f"{path.name}: {error}")
            failed += 1
            continue
        print(f"{path.name}: {seconds:.1f} s of the processor, {clock:.1f} s", flush=True)
        failed += seconds > LIMIT
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
