"""From a store to its record in the report: runs, settings, versions, machine.

No browser opens a page with a million runs. For a large store the page has the first trials at
every T and m.
"""

import json

from capax.figures.stored.runs import StoredRun, stored_runs
from capax.report.provenance import RunRow, StoreRecord
from capax.sweep.storage.store import Store

MOST_RUNS = 15_000
"""Approximate limit of the runs of one store on a page."""


def store_record(store: Store) -> StoreRecord:
    """The record of an open store, named after its file."""
    experiment = store.experiment
    (sums,) = store.select(
        "SELECT count(*) AS runs, count(DISTINCT trial_id) AS trials, total(seconds) AS seconds "
        "FROM runs"
    )
    runs = stored_runs(store, below=_shown_trials(store, sums["runs"]))
    facts: dict[str, object] = {
        "claim": experiment.claim,
        "scale": experiment.scale,
        "runs": sums["runs"],
        "trials": sums["trials"],
        "seconds of training": f"{sums['seconds']:.1f}, summed over runs",
        "begun": store.meta("created"),
        "versions": ", ".join(f"{name} {version}" for name, version in _versions(store).items()),
    }
    facts = {name: fact for name, fact in facts.items() if fact != ""}
    settings = json.dumps(experiment.model_dump(mode="json"), indent=2)
    shown = tuple(_row(run) for run in runs)
    return StoreRecord(store.path.stem, settings, facts, shown, sums["runs"])


def _shown_trials(store: Store, total: int) -> int | None:
    """Trials with smaller numbers are shown, about `MOST_RUNS` runs in all; None: all trials."""
    if total <= MOST_RUNS:
        return None
    rows = store.select("SELECT number, count(*) AS trials FROM trials GROUP BY number ORDER BY 1")
    share = MOST_RUNS / total * sum(row["trials"] for row in rows)
    seen = 0
    for row in rows:
        seen += row["trials"]
        if seen > share:
            return max(1, row["number"])
    return None


def _row(run: StoredRun) -> RunRow:
    return RunRow(
        run_id=run.run_id,
        trial_id=run.trial_id,
        T=run.T,
        m=run.m,
        restart=run.restart,
        outcome=run.outcome,
        solved_step=run.solved_step,
        validation_accuracy=run.final_accuracy,
        seconds=run.seconds,
        reason=run.reason or None,
        spec=run.spec,
        panel=run.panel,
    )


def _versions(store: Store) -> dict[str, str]:
    """Versions by name; if sessions differ, every version that was used."""
    seen: dict[str, list[str]] = {}
    for row in store.select("SELECT versions FROM sessions ORDER BY session"):
        for name, version in store.plain(row["versions"], "versions").items():
            known = seen.setdefault(name, [])
            if version not in known:
                known.append(version)
    return {name: ", then ".join(map(str, values)) for name, values in seen.items()}
