"""Trials a second that the one writer of a Ray cluster takes in, and what fits cost there.

    python benchmarks/cluster.py               # a local cluster of as many cores as the machine has

Simulated learners answer at once, so what is measured is the driver: asking the searches, sending
tasks, taking in outcomes, writing them, with as many tasks in flight as 1000 workers would have. A
cluster of n workers whose trials take s seconds each brings in n / s trials a second; the table
says how long trials must be for 1000 workers. Then a decision tree is fitted here and on the
cluster, trial by trial the same.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from capax.sweep.experiments.spec import build_experiment
from capax.sweep.running import cluster
from capax.sweep.running.cluster import run_on_ray
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store

WORKERS = 1000


def experiment(family: dict, T: list[int], m: list[int], trials: int, restarts: int = 1):
    """A grid of trials."""
    panels = {"grid": {"T": T, "search": {"method": "grid", "m": m, "trials": trials}}}
    return build_experiment({"name": "cluster", "model": family, "panels": panels,
                             "training": {"restarts": restarts}})  # fmt: skip


def seconds_of(run, plan) -> tuple[float, float, int]:
    """How long `run` takes for a new store, by the clock and of this process, and its trials."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create_or_resume(Path(folder) / "s.sqlite", plan) as store,
    ):
        start, busy = time.perf_counter(), time.process_time()
        status = run(plan, store)
        return time.perf_counter() - start, time.process_time() - busy, status.trials


def driver(trials: int, chunks: list[int], workers: int) -> None:
    """Trials a second for several sizes of a task, with the tasks in flight of so many workers."""
    simulated = {"family": "simulated", "threshold": 20.0}
    tasks = cluster.AHEAD * workers
    cluster.AHEAD = -(-tasks // (os.cpu_count() or 1))
    print(f"{tasks} tasks in flight, as many as {workers} workers have", flush=True)
    for chunk in chunks:
        plan = experiment(simulated, [10, 20], [10, 20], trials // 4)
        seconds, busy, done = seconds_of(lambda p, s, c=chunk: run_on_ray(p, s, chunk=c), plan)
        most = done / busy  # where the driver has a core for itself
        told = f"{done} trials in {seconds:.1f} s ({done / seconds:.0f} a second)"
        told += f", {busy:.1f} s of the driver ({most:.0f} a second)"
        print(f"{chunk:4} trials a task: {told}; enough for {WORKERS} workers whose trials take "
              f"{WORKERS / most:.1f} s", flush=True)  # fmt: skip


def fits(trials: int) -> None:
    """The same fits here and on the cluster."""
    plan = experiment({"family": "tree"}, [10], [20, 40], trials // 2)
    here, _, done = seconds_of(run_sweep, plan)
    there, _, _ = seconds_of(run_on_ray, plan)
    print(
        f"decision tree, {done} trials: {here:.1f} s here, {there:.1f} s on the cluster", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=8000)
    parser.add_argument("--fits", type=int, default=160)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    seconds_of(run_on_ray, experiment({"family": "simulated"}, [10], [10], 20))  # workers start
    fits(options.fits)
    ahead = cluster.AHEAD
    for workers in (os.cpu_count() or 1, WORKERS):
        cluster.AHEAD = ahead
        driver(options.trials, [1, 2, 16], workers)


if __name__ == "__main__":
    main()
