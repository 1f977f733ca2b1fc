"""From a store to its record in the report: every run, the settings, the versions, the machine."""

import json

from capax.figures.stored.runs import StoredRun, stored_runs
from capax.report.provenance import RunRow, StoreRecord
from capax.sweep.storage.store import Store


def store_record(store: Store) -> StoreRecord:
    """The record of an open store, named after its file."""
    experiment = store.experiment
    runs = stored_runs(store)
    facts: dict[str, object] = {
        "claim": experiment.claim,
        "scale": experiment.scale,
        "runs": len(runs),
        "trials": len({run.trial_id for run in runs}),
        "seconds of training": f"{sum(run.seconds for run in runs):.1f}, summed over runs",
        "begun": store.meta("created"),
        "versions": ", ".join(f"{name} {version}" for name, version in _versions(store).items()),
    }
    facts = {name: fact for name, fact in facts.items() if fact != ""}
    settings = json.dumps(experiment.model_dump(mode="json"), indent=2)
    return StoreRecord(store.path.stem, settings, facts, tuple(_row(run) for run in runs))


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
    """Versions by name; where sessions differ, every value that was used."""
    seen: dict[str, list[str]] = {}
    for row in store.select("SELECT versions FROM sessions ORDER BY session"):
        for name, version in store.plain(row["versions"], "versions").items():
            known = seen.setdefault(name, [])
            if version not in known:
                known.append(version)
    return {name: ", then ".join(map(str, values)) for name, values in seen.items()}
