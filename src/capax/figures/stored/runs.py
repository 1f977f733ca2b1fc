"""The runs of a store as plain data, and the purpose of each of its panels.

The settings of a panel show its purpose: fresh samples at every step are for a phase transition,
kept parameters for an attention map, a search over m for a threshold, and a few fixed m for
learning curves.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from capax.sweep.experiments.spec import Panel
from capax.sweep.searching.search import GridSearch
from capax.sweep.storage.store import Store

PanelKind = Literal["thresholds", "curves", "attention", "transition"]
_LEAST_VALUES = 4
"""A grid with fewer values of m is for learning curves, not for a threshold."""


@dataclass(frozen=True)
class StoredRun:
    """One run of a store with its trial; `spec` and `curves` as plain data."""

    run_id: str
    trial_id: str
    panel: str
    T: int
    m: int
    number: int
    restart: int
    outcome: str
    solved_step: int | None
    seconds: float
    reason: str
    spec: dict[str, Any]
    curves: dict[str, list[float]]

    @property
    def final_accuracy(self) -> float | None:
        """Validation accuracy at the last evaluation; `None` if the learner has no evaluations."""
        accuracies = self.curves.get("validation_accuracy")
        return accuracies[-1] if accuracies else None


def panel_kind(panel: Panel) -> PanelKind:
    """The purpose of a panel, from its settings."""
    if panel.training.get("mode") == "online":
        return "transition"
    if (
        panel.keep_parameters and "data" not in panel.task
    ):  # the support is unknown for data of a file
        return "attention"
    search = panel.search
    few = isinstance(search, GridSearch) and len(set(search.m)) < _LEAST_VALUES
    return "curves" if few else "thresholds"


def panels_of(store: Store, kind: PanelKind) -> tuple[Panel, ...]:
    """The panels of one kind in a store."""
    return tuple(panel for panel in store.experiment.panels if panel_kind(panel) == kind)


def stored_runs(
    store: Store, panel: str | None = None, *, below: int | None = None
) -> list[StoredRun]:
    """All runs of a store, or of one of its panels, ordered by T, m, trial and restart.

    below: only trials with a smaller number than this (numbered from 0 at each T and m).
    """
    rows = store.select(
        "SELECT r.run_id, r.trial_id, t.panel, t.T, t.m, t.number, r.restart, r.outcome, "
        "r.solved_step, r.seconds, r.reason, r.spec, r.curves "
        "FROM runs r JOIN trials t USING (trial_id) WHERE (?1 IS NULL OR t.panel = ?1) "
        "AND (?2 IS NULL OR t.number < ?2) ORDER BY t.panel, t.T, t.m, t.number, r.restart",
        panel,
        below,
    )
    return [_run(store, dict(row)) for row in rows]


def _run(store: Store, fields: dict[str, Any]) -> StoredRun:
    run = fields["run_id"]
    fields["spec"] = store.plain(fields["spec"], f"spec of {run}")
    fields["curves"] = store.series(fields["curves"], f"curves of {run}")
    return StoredRun(**fields)


def describe_task(spec: dict[str, Any]) -> str:
    """The target in words: `and3` is a 3-bit AND; a formula is shown unchanged."""
    if "content" in spec.get("task", {}):
        return "examples of a file"
    function = spec.get("task", {}).get("function")
    if function is None:
        return "simulated learner"
    names = {"and": "AND", "or": "OR", "parity": "parity", "maj": "majority"}
    shorthand = re.fullmatch(r"(and|or|parity|maj)(\d+)", function)
    return f"{shorthand[2]}-bit {names[shorthand[1]]}" if shorthand else function
