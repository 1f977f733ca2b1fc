"""Seconds and memory of the commands that read a large store.

    python benchmarks/large_stores.py --runs 1000000 --folder out/large

Makes a store of simulated learners (T = 10 to 5120, 20 values of m, as many trials as asked for, a
run each), written in one transaction with the rows that a sweep writes, less the last 200 trials.
Then every command runs in a process of its own: the resumed sweep, `thresholds`, `report` and
`export` to CSV and Parquet. Exits with 1 where one takes more than 30 s or 500 MB.
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from capax.sweep.known_families import family_of
from capax.sweep.spec import Panel, load_experiment
from capax.sweep.storage.store import Store, _run_row
from capax.sweep.trial import Outcome

MOST_SECONDS, MOST_MEGABYTES = 30.0, 500.0
LENGTHS, SIZES, LEFT = 10, 20, 200
EXPERIMENT = """
name = "large"
[model]
family = "simulated"
threshold = 20.0
growth = 6.0
[panels.threshold]
T = {T}
search = {{ method = "grid", m = {m}, trials = {trials} }}
"""


def main() -> None:
    """Make the store if it is not there, run the commands, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("out/large"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    plan, store = options.folder / "large.toml", options.folder / f"large-{options.runs}.sqlite"
    lengths = [10 * 2**i for i in range(LENGTHS)]
    sizes = sorted({round(12 * 1.11**i) for i in range(SIZES)})
    trials = options.runs // (LENGTHS * len(sizes))
    plan.write_text(EXPERIMENT.format(T=lengths, m=sizes, trials=trials))
    if not store.exists():
        fill(store, plan)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
          f"{store.stat().st_size / 1e6:.0f} MB in {store}", flush=True)  # fmt: skip
    out = options.folder
    commands = {
        "resume": ("sweep", plan, "--store", store, "--json"),
        "thresholds": ("thresholds", store),
        "report": ("report", store, "--out", out / "large.html"),
        "export to CSV": ("export", store, "--out", out / "large.csv"),
        "export to Parquet": ("export", store, "--out", out / "large.parquet"),
    }
    sys.exit(max([timed(name, words) for name, words in commands.items()]))


def fill(store: Path, plan: Path) -> None:
    """All trials of the plan but the last few, as a sweep would have written them."""
    experiment = load_experiment(plan)
    panel = experiment.panels[0]
    outcomes = played(panel)
    with Store.create_or_resume(store, experiment) as opened:
        opened.add(next(outcomes))  # with the row of its session
    start, number = time.perf_counter(), 1
    trials, runs = (f"INSERT INTO {t} VALUES ({', '.join('?' * n)})"
                    for t, n in (("trials", 9), ("runs", 12)))  # fmt: skip
    with closing(sqlite3.connect(store)) as connection, connection:
        (session,) = connection.execute("SELECT session FROM sessions").fetchone()
        for outcome in outcomes:
            trial = outcome.trial
            row = (trial.trial_id, trial.panel, trial.T, trial.m, trial.index, outcome.solved,
                   outcome.reason, 0, "2026-11-17T00:00:00.000+00:00")  # fmt: skip
            connection.execute(trials, row)
            rows = [_run_row(run, trial.trial_id, session) for run in outcome.runs]
            connection.executemany(runs, rows)
            number += 1
    print(f"{number} trials made in {time.perf_counter() - start:.0f} s", flush=True)


def played(panel: Panel) -> Iterator[Outcome]:
    """The outcomes of the panel's trials, T by T, without those that are left to the sweep."""
    family, search = family_of(panel), panel.search.model_dump()
    cells = [(T, m, i) for T in panel.T for m in search["m"] for i in range(search["trials"])]
    for T, m, index in cells[:-LEFT]:
        yield from family.learner(panel, T)(iter([family.trial(panel, T, m, index)]))


def timed(name: str, words: tuple[object, ...]) -> bool:
    """Run a command; whether it failed or took too much."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "capax.cli", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, megabytes = time.perf_counter() - start, used.ru_maxrss / 1e3
    busy = used.ru_utime + used.ru_stime
    bad = process.returncode != 0 or seconds > MOST_SECONDS or megabytes > MOST_MEGABYTES
    told = f"{seconds:.1f} s ({busy:.1f} s of CPU), {megabytes:.0f} MB"
    if name == "resume":
        found = json.loads(out)
        told += f", {found['trials']} trials, {found['resumed_trials']} of them known"
    print(f"{name}: {told}, exit code {process.returncode}{' TOO MUCH' * bad}", flush=True)
    return bad


if __name__ == "__main__":
    main()
