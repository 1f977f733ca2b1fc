"""Seconds and memory of the commands that read a large store.

    python benchmarks/large_stores.py --runs 1000000 --folder out/large

Makes a store of simulated learners (T = 10 to 5120, 20 values of m, as many trials as asked for, a
run each), with rows like those that a sweep writes, less the last 200 trials.
Then every command runs in a process of its own: the resumed sweep, `thresholds`, `report` and
`export` to CSV and Parquet. Exits with 1 where one takes more than 30 s of a core or 500 MB; by the
clock a busy machine takes longer.
"""

import argparse
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from capax.sweep.experiments.spec import load_experiment
from capax.sweep.families.known_families import family_of
from capax.sweep.storage.store import Store

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
    parser.add_argument("--only", action="append", help="resume, thresholds, report, csv, parquet")
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
        "csv": ("export", store, "--out", out / "large.csv"),
        "parquet": ("export", store, "--out", out / "large.parquet"),
    }
    chosen = options.only or commands
    sys.exit(max([timed(name, commands[name]) for name in chosen]))


def fill(store: Path, plan: Path) -> None:
    """All trials of the plan but the last few, with rows like those of a real trial.

    Outcomes are drawn from the success curve of the learner. Identities are hashes of a counter: a
    sweep knows its trials by T, m and number.
    """
    experiment = load_experiment(plan)
    panel = experiment.panels[0]
    family, search = family_of(panel), panel.search.model_dump()
    with Store.create_or_resume(store, experiment) as opened:
        opened.add(next(iter(family.learner(panel, 10)(iter([family.trial(panel, 10, 12, 0)])))))
    cells = [(T, m, i) for T in panel.T for m in search["m"] for i in range(search["trials"])]
    learner = family.trial(panel, 10, 12, 0).spec.learner
    chance = {(T, m): learner.success(m, T) for T in panel.T for m in search["m"]}
    dice = np.random.default_rng(0).random(len(cells))
    with closing(sqlite3.connect(store)) as connection, connection:
        (trial,) = connection.execute("SELECT * FROM trials").fetchall()
        (run,) = connection.execute("SELECT * FROM runs").fetchall()
        spec = json.loads(run[9])

        def rows(table: str) -> Iterator[tuple[object, ...]]:
            for n, (T, m, i) in enumerate(cells[1:-LEFT], 1):
                name, solved = hashlib.sha256(b"%d" % n).hexdigest(), dice[n] < chance[T, m]
                if table == "trials":
                    yield (name, trial[1], T, m, i, int(solved), *trial[6:])
                    continue
                text = json.dumps({**spec, "T": T, "m": m, "seed": i}, sort_keys=True)
                outcome = ("solved", 1) if solved else ("failed", None)
                yield (name[::-1], name, 0, *outcome, *run[5:9], text, *run[10:])

        for table, columns in (("trials", len(trial)), ("runs", len(run))):
            places = ", ".join("?" * columns)
            connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows(table))


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
    bad = process.returncode != 0 or busy > MOST_SECONDS or megabytes > MOST_MEGABYTES
    told = f"{seconds:.1f} s ({busy:.1f} s of CPU), {megabytes:.0f} MB"
    if name == "resume":
        found = json.loads(out)
        told += f", {found['trials']} trials, {found['resumed_trials']} of them known"
    print(f"{name}: {told}, exit code {process.returncode}{' TOO MUCH' * bad}", flush=True)
    return bad


if __name__ == "__main__":
    main()
