"""Where the time of a whole job goes, from the start of the process to the last result.

    python benchmarks/whole_job.py figure2 --scale grid --jobs 4
    python benchmarks/whole_job.py figure2 --scale beyond --jobs 2 --out beyond.json

A job starts from empty caches (compiled programs, kernels, the driver's own) in a folder that is
removed afterwards. Printed are the seconds since the process began at which things happened, the
seconds of every trace and compilation, and for every T its chunks: how many, how long, how many
slots were busy. `benchmarks/steps.py` looks into a chunk.
"""

import argparse
import contextlib
import functools
import json
import os
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import psutil

BEGAN = psutil.Process().create_time()
_lock = threading.Lock()
LINES: list[tuple[float, float, str]] = []
TOTALS: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
CHUNKS: dict[int, dict[str, float]] = {}


def now() -> float:
    return time.time() - BEGAN


def note(what: str, began: float | None = None) -> None:
    """Something happened now, or lasted from `began` until now."""
    with _lock:
        LINES.append((now() if began is None else began, now(), what))


def spans(owner: object, name: str, what=None, total: str = "") -> None:
    """Let every call of `owner.name` be noted under `what(*arguments)`, or summed in `total`."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def timed(*arguments, **named):
        began = now()
        try:
            return original(*arguments, **named)
        finally:
            if total:
                with _lock:
                    TOTALS[total][0] += 1
                    TOTALS[total][1] += now() - began
            else:
                note(what(*arguments), began)

    setattr(owner, name, timed)


def watch_everything() -> None:
    """Wrap what a job spends its time on."""
    from capax.sweep.families import lanes_family
    from capax.sweep.storage import store
    from capax.training.fused import nvrtc, step
    from capax.training.programs import program_compiler, seeds
    from capax.training.slots import crew, pools, slots

    at = lambda self, name, *_: f"T = {self.program.path.spec.T}: {name}"  # noqa: E731
    spans(program_compiler.ProgramCompiler, "_traced", lambda *a: f"{at(*a)} traced")
    spans(program_compiler.ProgramCompiler, "_compiled", lambda *a: f"{at(*a)} compiled")
    spans(nvrtc, "to_ptx", lambda *_: "NVRTC")
    spans(step, "_trouble", lambda *_: "kernel tried on one example")
    spans(pools, "pool_for", lambda task, *_: f"T = {task.T}: validation pool drawn")
    spans(crew, "training_for", total="training sets drawn")
    spans(seeds, "seed_for", total="lanes made")
    spans(slots.Slots, "admit", total="runs admitted (calls)")
    spans(slots.Slots, "examine", total="whole pools examined (calls)")
    spans(store.Store, "add", total="trials stored")
    spans(lanes_family, "_hardware", lambda *_: "devices looked up")
    spans(slots.Slots, "__init__", lambda *a: f"T = {a[1].path.spec.T}: slots ready")
    original = slots.Slots.advance

    def advance(self, busy):
        busy, began = list(busy), now()
        measured = original(self, busy)
        T, seconds = self.program.path.spec.T, now() - began
        with _lock:
            entry = CHUNKS.setdefault(T, dict.fromkeys(("chunks", "seconds", "busy"), 0.0))
            if not entry["chunks"]:
                LINES.append((began, now(), f"T = {T}: first chunk, {self.width} slots"))
                entry.update(width=self.width, first=began, rows=self.program.rows)
            entry["chunks"] += 1
            entry["seconds"] += seconds
            entry["busy"] += len(busy)
            entry["last"] = now()
        return measured

    slots.Slots.advance = advance


def job(experiment: str, scale: str | None, jobs: int) -> dict:
    """Run it all, and tell."""
    import jax

    note("jax imported", 0.0)
    began = now()
    devices = jax.devices()
    note(f"backend ready: {devices[0].device_kind}", began)
    began = now()
    from capax.sweep.experiments.shipped import experiment_path
    from capax.sweep.experiments.spec import load_experiment
    from capax.sweep.running.runner import run_sweep
    from capax.sweep.storage.store import Store

    watch_everything()
    note("capax imported", began)
    plan = load_experiment(experiment_path(experiment), scale)
    first: list[float] = []

    def report(status) -> None:
        if status.runs and not first:
            first.append(now())
            note("first trial stored")

    query = """SELECT t.T, count(*) AS runs, sum(r.steps) AS steps FROM runs r
               JOIN trials t USING (trial_id) GROUP BY t.T"""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.create_or_resume(Path(folder) / "job.sqlite", plan) as store,
    ):
        status = run_sweep(plan, store, jobs_at_once=jobs, report=report)
        seconds = now()
        work = {row["T"]: dict(row) for row in store.select(query)}
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time(),
        "trials": status.trials,
        "solved": status.solved,
        "runs": status.runs,
        "T": {T: {**entry, **work.get(T, {})} for T, entry in CHUNKS.items()},
        "totals": dict(TOTALS),
        "lines": sorted(LINES),
    }


def show(found: dict) -> None:
    """The time line, then the chunks of every T."""
    for began, ended, what in found["lines"]:
        print(f"{began:8.2f} .. {ended:7.2f}  {ended - began:6.2f} s  {what}")
    print(f"\n{'T':>7} slots  rows   from      to  chunks  ms/chunk  busy   runs    steps")
    for T, e in found["T"].items():
        each, busy = 1e3 * e["seconds"] / e["chunks"], e["busy"] / e["chunks"] / e["width"]
        print(
            f"{T:7} {e['width']:5} {e['rows']:5} {e['first']:6.2f} {e['last']:7.2f} "
            f"{e['chunks']:7.0f} {each:9.1f} {busy:5.2f} {e.get('runs', 0):6} {e.get('steps', 0):8}"
        )
    for what, (number, seconds) in found["totals"].items():
        print(f"{what}: {number}, {seconds:.2f} s in all threads")
    print("{trials} trials, {solved} solved, {runs} runs".format(**found), end=", ")
    print("{seconds:.1f} s, {cpu_seconds:.1f} s of CPU".format(**found))


@contextlib.contextmanager
def empty_caches():
    """Nothing compiled before: of Capax and JAX (one folder), and of the driver."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CAPAX_CACHE"] = folder
        os.environ["CUDA_CACHE_PATH"] = str(Path(folder) / "driver")
        yield


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", nargs="?", default="figure2")
    parser.add_argument("--scale")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="all of it as JSON")
    given = parser.parse_args()
    with empty_caches():
        found = job(given.experiment, given.scale, given.jobs)
        show(found)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
