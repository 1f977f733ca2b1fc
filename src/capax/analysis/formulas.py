"""What the kept models of a store compute, and what failed runs had learnt instead."""

import tempfile
from pathlib import Path

from capax.attention.checkpoint import load
from capax.data.task import TaskSpec
from capax.decompile.anatomy import Anatomy, quick_anatomy
from capax.sweep.store import Store


def anatomies(store: Store) -> dict[str, Anatomy]:
    """The anatomy of every run whose parameters were kept, by run id."""
    rows = store.select("SELECT run_id, spec FROM runs JOIN parameters USING (run_id)")
    found = {}
    for row in rows:
        fields = store.plain(row["spec"], f"spec of {row['run_id']}").get("task")
        if not isinstance(fields, dict) or "content" in fields:
            continue  # simulated, or examples of a file: there is no rule to compare with
        task = TaskSpec(**fields)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            path.write_bytes(store.parameters(row["run_id"]) or b"")
            model, _ = load(path)
        found[row["run_id"]] = quick_anatomy(model, task.target, p=task.probability)
    return found


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
