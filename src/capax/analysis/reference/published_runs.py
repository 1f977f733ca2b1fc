"""The runs of a store beside the published runs of Figures 3 and 4.

Figure 3 has 40 replicates of AND of 3 bits at T = 300, m = 50 and 200: how many are solved.
Figure 4 has ten seeds of parity of 3 bits at T = 10 and 15: when each loss falls below 0.35.
A panel of a store is compared if it has this task, T and m. Its protocol may differ: the name of
the panel identifies the settings. Every p-value is for one comparison alone: of twenty true
settings one has p < 0.05 by chance.
"""

from typing import Any

import numpy as np

from capax.analysis.reference.published import (
    Tested,
    beside_published_replicates,
    beside_published_times,
    crossing_step,
    published,
)
from capax.errors import InputError
from capax.sweep.experiments.spec import Panel
from capax.sweep.storage.store import Store


def beside_published_runs(store: Store) -> tuple[tuple[str, Tested], ...]:
    """Every comparison that a store allows, with the name of its panel.

    Raises `InputError` for a store without such runs.
    """
    found = [
        (panel.name, tested)
        for panel in store.experiment.panels
        for tested in (*_replicates(store, panel), *_times(store, panel))
    ]
    if not found:
        raise InputError(
            f"{store.path}: no runs of Figure 3 (and3, T = 300, m = 50 or 200) or Figure 4 "
            "(parity3, fresh samples, T = 10 or 15)"
        )
    return tuple(found)


def _is_online(panel: Panel) -> bool:
    return panel.training.get("mode") == "online"


def _replicates(store: Store, panel: Panel) -> list[Tested]:
    if panel.task.get("function") != "and3" or _is_online(panel):
        return []
    counts = store.counts(panel.name, published().figure3["T"])
    rows = zip(counts.m, counts.solved, counts.total, strict=True)
    known = {int(m) for m in published().figure3["solved"]}
    return [
        beside_published_replicates(solved, total, m) for m, solved, total in rows if m in known
    ]


def _times(store: Store, panel: Panel) -> list[Tested]:
    if panel.task.get("function") != "parity3" or not _is_online(panel):
        return []
    steps = {T: _crossings(store, panel.name, int(T)) for T in published().figure4["steps"]}
    return [beside_published_times(own, int(T)) for T, own in steps.items() if own]


def _crossings(store: Store, panel: str, T: int) -> list[float | None]:
    """The step at which each seed's loss falls below the published level, without restarts."""
    rows: list[Any] = store.select(
        "SELECT r.run_id, r.curves FROM runs r JOIN trials t USING (trial_id) "
        "WHERE t.panel = ? AND t.T = ? AND r.restart = 0 ORDER BY t.m, t.number",
        panel,
        T,
    )
    curves = [store.series(row["curves"], f"curves of {row['run_id']}") for row in rows]
    level = published().figure4["loss"]
    return [
        crossing_step(np.array(c["step"]), np.array(c["loss"]), level) for c in curves if c
    ]  # a reference with many runs keeps the curves of a few
