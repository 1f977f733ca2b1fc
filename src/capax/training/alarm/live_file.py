"""Runs in training, written to a file so that another process can watch them.

Lines of JSON: one when a run starts (its T, its limit of steps, the names of its series), one per
look, one when it ends. Only a few runs at a time are written. Training does not depend on the file:
if it cannot be written, the file ends and training continues.
"""

import json
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from capax.errors import InputError
from capax.reading import existing, opened_at_once
from capax.training.specs.progress_names import NAMES
from capax.training.specs.run_results import COLUMNS
from capax.training.specs.trial_specs import RunSpec

MOST = 8  # runs written at the same time
_LARGEST = 1 << 28


def live_path(store: Path) -> Path:
    """The file for the runs in training of a store."""
    return store.with_name(f"{store.name}-live")


class LiveFile:
    """The writer. `close` removes the file, since no run is in training any more."""

    def __init__(self, path: Path, most: int = MOST) -> None:
        self.path, self._most = path, most
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._file: IO[str] | None = None
        with suppress(OSError):
            self._file = path.open("w", encoding="utf-8")

    def look(self, spec: RunSpec, row: tuple[float | int, ...], is_over: bool) -> None:
        """The newest look of a run, and whether the run ended with it."""
        run_id = spec.run_id
        with self._lock:
            if run_id not in self._seen:
                if len(self._seen) >= self._most:
                    return
                self._seen.add(run_id)
                self._write(
                    {"run": run_id, **_about(spec), "names": (*COLUMNS, *NAMES)[: len(row)]}
                )
            self._write({"run": run_id, "row": [float(f"{value:.6g}") for value in row]})
            if is_over:
                self._seen.discard(run_id)
                self._write({"run": run_id, "over": True})

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def close(self) -> None:
        """Close and remove the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
                self.path.unlink(missing_ok=True)


def _about(spec: RunSpec) -> dict[str, Any]:
    function = getattr(spec.task, "function", None)
    return {"T": spec.task.T, "limit": spec.steps, "function": function, "restart": spec.restart}


@dataclass
class RunInWork:
    """A run as recorded in the file."""

    run_id: str
    T: int
    limit: int
    function: str | None
    restart: int
    curves: dict[str, list[float]] = field(default_factory=dict)
    is_over: bool = False


def live_runs(path: Path | str) -> list[RunInWork]:
    """The runs of such a file, in the order of their start. An incomplete last line is left out.
    Raises `InputError` for a file of another kind."""
    file = existing(path, "a file of runs in training")
    with opened_at_once(file) as opened:
        text = opened.read(_LARGEST).decode("utf-8", "replace")
    runs: dict[str, RunInWork] = {}
    for line in text.split("\n")[:-1]:
        try:
            _take(runs, json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{file}: not a file of runs in training") from None
    return list(runs.values())


def _take(runs: dict[str, RunInWork], line: dict[str, Any]) -> None:
    run_id = str(line["run"])
    if "names" in line:
        about = (int(line["T"]), int(line["limit"]), line["function"], int(line["restart"]))
        runs[run_id] = RunInWork(run_id, *about, {str(name): [] for name in line["names"]})
    elif "row" in line:
        for values, value in zip(runs[run_id].curves.values(), line["row"], strict=True):
            values.append(float(value))
    else:
        runs[run_id].is_over = bool(line["over"])
