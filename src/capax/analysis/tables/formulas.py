"""The formulas of the models in a store, and the formulas of failed runs."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Row
from typing import Any

from capax.attention.checkpoint import load
from capax.data.examples import training_examples
from capax.data.task import TaskSpec
from capax.decompile.anatomy import Anatomy, Kind, quick_anatomy, tally
from capax.sweep.storage.store import Store

_KEPT = (
    "SELECT run_id, trials.T AS T, trials.m AS m, spec FROM runs JOIN parameters USING (run_id) "
    "JOIN trials USING (trial_id)"
)
MOST_FAILED = 40
"""Failed runs that a report decompiles: each takes one to five seconds."""


@dataclass(frozen=True)
class FailedRun:
    """One failed run and the formula that it computes."""

    run_id: str
    T: int
    m: int
    anatomy: Anatomy


@dataclass(frozen=True)
class FailedRuns:
    """Failed runs with kept models: the decompiled ones, and the number of all."""

    runs: tuple[FailedRun, ...]
    kept: int

    def tally(self) -> list[tuple[Kind, int, str]]:
        """(kind, number, an example), most frequent first."""
        return tally([run.anatomy for run in self.runs])

    def fitting(self, kind: Kind) -> int:
        """The number of runs of a kind whose formula gives all training labels."""
        return sum(r.anatomy.kind == kind and bool(r.anatomy.fits_training) for r in self.runs)


def anatomies(store: Store) -> dict[str, Anatomy]:
    """The anatomy of every run whose parameters were kept, by run id."""
    rows = _with_a_rule(store, store.select(_KEPT))
    return {row["run_id"]: _anatomy(store, row) for row in rows}


def failed_runs(store: Store, most: int = MOST_FAILED) -> FailedRuns:
    """The formulas of failed runs with kept parameters, for at most `most` runs."""
    failed = f"{_KEPT} WHERE outcome = 'failed' ORDER BY trials.T, trials.m, run_id"
    rows = _with_a_rule(store, store.select(failed))
    found = (FailedRun(r["run_id"], r["T"], r["m"], _anatomy(store, r)) for r in rows[:most])
    return FailedRuns(tuple(found), len(rows))


def _with_a_rule(store: Store, rows: list[Row]) -> list[Row]:
    """Runs with a known rule: neither simulated nor on examples of a file."""
    tasks = (_spec(store, row).get("task") for row in rows)
    known = (isinstance(task, dict) and "content" not in task for task in tasks)
    return [row for row, has_rule in zip(rows, known, strict=True) if has_rule]


def _spec(store: Store, row: Row) -> dict[str, Any]:
    return store.plain(row["spec"], f"spec of {row['run_id']}")


def _anatomy(store: Store, row: Row) -> Anatomy:
    spec = _spec(store, row)
    task = TaskSpec(**spec["task"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(store.parameters(row["run_id"]) or b"")
        model, _ = load(path)
    full_batch = spec.get("mode", "full_batch") == "full_batch"
    data = training_examples(task) if full_batch else None
    return quick_anatomy(model, task.target, p=task.probability, data=data)


def formulas_of(store: Store) -> dict[str, dict[str, str]]:
    """Columns for an export: `formula`, `formula_kind` and `formula_agreement`."""
    return {
        run: {
            "formula": a.formula,
            "formula_kind": a.kind,
            "formula_agreement": f"{a.agreement:.4f}",
        }
        for run, a in anatomies(store).items()
    }
