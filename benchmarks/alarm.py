"""Fit the alarm to the runs of a store, judge it on settings that were held out, and ship it.

    python benchmarks/alarm.py STORE [--out out/alarm] [--ship]

Held out is one T at a time, then one s at a time. Printed: Brier scores of the
constant, the loss, the blind and the knowing alarm with the difference to the loss; the calibration
of each; and what giving up lost runs would have gained in solved runs per training step, by replay
on held-out settings. `--ship` writes `src/capax/reference/alarm.json`.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from capax.analysis.times.alarm_fit import (
    Judged,
    WatchedRun,
    describe,
    fit_alarm,
    held_out,
    moments,
    watched_runs,
)
from capax.figures.experiments.alarm_calibration import draw_calibration
from capax.figures.style import save
from capax.sweep.storage.store import Store
from capax.training.alarm.features import KINDS

SHIPPED = Path(__file__).parents[1] / "src" / "capax" / "reference" / "alarm.json"
WAYS = {"T": lambda run: run.T, "s": lambda run: run.s}


def scores(judged: Judged) -> dict:
    """Brier scores, differences with standard errors, calibration."""
    kinds = tuple(judged.chances)
    return {
        "rows": len(judged.outcomes),
        "runs": len(np.unique(judged.run)),
        "brier": {kind: judged.brier(kind) for kind in kinds},
        "less_than_loss": {k: judged.difference(k, "loss") for k in kinds if k != "loss"},
        "less_than_constant": {
            k: judged.difference(k, "constant") for k in kinds if k != "constant"
        },
        "calibration": {kind: judged.calibration(kind) for kind in kinds},
    }


def replayed(runs: list[WatchedRun], kind: str) -> list[dict]:
    """Solved runs per million steps with and without giving up, every T by the alarm of the others.

    A run that is given up frees its slot at once.
    """
    asked = []  # (T, s, steps taken, solved, [(step, chance), ...])
    for T in sorted({run.T for run in runs}):
        alarm = fit_alarm([run for run in runs if run.T != T], kind)
        for run in (run for run in runs if run.T == T):
            rows = moments([run], kind, at_least=0)
            taken = run.solved_step or int(run.curves["step"][-1])
            said = zip(run.limit - rows.left, alarm.chance(rows.x, rows.left), strict=True)
            asked.append((T, run.s, taken, run.solved_step is not None, list(said)))
    return [_rates(asked, below) for below in (0.02, 0.05, 0.1, 0.2)]


def _rates(asked: list, below: float) -> dict:
    """With and without the rule, in all and by setting (each setting has the same weight)."""
    settings: dict = {}
    for T, s, taken, solved, said in asked:
        end = next((step for step, chance in said if chance < below), None)
        sums = settings.setdefault((T, s), np.zeros(4))
        sums += taken, solved, taken if end is None else end, solved and end is None
    rows = [
        {"T": T, "s": s, "without": 1e6 * b / a, "with": 1e6 * d / c, "lost": int(b - d)}
        for (T, s), (a, b, c, d) in sorted(settings.items())
    ]
    total = sum(settings.values())
    return {"below": below, "without": 1e6 * total[1] / total[0], "with": 1e6 * total[3] / total[2],
            "lost": int(total[1] - total[3]), "steps_saved": 1 - total[2] / total[0],
            "settings": rows}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, default=Path("out/alarm"))
    parser.add_argument("--device", default="", help="machine the runs were made on")
    parser.add_argument("--ship", action="store_true")
    given = parser.parse_args()
    with Store.read(given.store) as store:
        runs = watched_runs(store)
    given.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, by in WAYS.items():
        if len({by(run) for run in runs}) > 1:
            judged = held_out(runs, by)
            found[name] = scores(judged)
            print(f"held out: {name}", json.dumps(found[name]["brier"]))
            print("  less than loss:", json.dumps(found[name]["less_than_loss"]))
            save(draw_calibration(judged), given.out / f"calibration_{name.replace(' ', '_')}.png")
    found["giving up"] = replayed(runs, "blind")
    for row in found["giving up"]:
        print("give up:", json.dumps({k: v for k, v in row.items() if k != "settings"}))
    (given.out / "alarm.json").write_text(json.dumps(found, indent=1))
    if given.ship:
        about = describe(runs, device=given.device, experiment="parity",
                         brier={name: part["brier"] for name, part in found.items()
                                if name in WAYS})  # fmt: skip
        about.pop("features")
        alarms = {kind: fit_alarm(runs, kind, about).to_json() for kind in KINDS}
        SHIPPED.write_text(json.dumps({"alarms": alarms}, indent=1) + "\n")


if __name__ == "__main__":
    main()
