"""Kills on a Ray cluster, and stores that disappear: parts of `benchmarks/kills.py`.

A cluster of two nodes on this machine. Workers, the raylet of the second node, the head and the
driver are killed without warning while a sweep runs with `--json`. A sweep that ends with exit code
0 has the results of one that was left alone; one that loses its cluster ends with exit code 2 and
one line, and goes on from its store on the next cluster. Standard output is JSON or empty.
"""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from killed_commands import must, num_trials, results

RAY_SWEEP = """
name = "ray"
[model]
family = "simulated"
threshold = 20.0
growth = 3.0
seconds = 0.04
[training]
restarts = 2
[panels.threshold]
T = [10, 30]
search = { method = "grid", m = [15, 25, 40], trials = 40 }
"""
VICTIMS = ("worker", "raylet", "head", "driver")
MARK = "CAPAX_KILLS_CLUSTER"
PATIENCE = 600.0
BUSY = {"RAY_raylet_start_wait_time_s": "300", "RAY_worker_niceness": "0",
        "RAY_DISABLE_IMPORT_WARNING": "1"}  # fmt: skip
"""A cluster on a busy machine takes longer to start than Ray waits by itself."""


class RayCluster:
    """A head without cores and a node with two, so that what is killed is known."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port, self.address = port, f"127.0.0.1:{port}"
        self._environment = {**os.environ, **BUSY, MARK: str(port)}
        self._common = ["--disable-usage-stats", "--temp-dir", str(folder)]

    def start(self) -> None:
        """The head, then the node."""
        self._ray("start", "--head", f"--port={self.port}", "--num-cpus=1",
                  "--include-dashboard=false", *self._common)  # fmt: skip
        self._ray("start", f"--address={self.address}", "--num-cpus=1", "--disable-usage-stats")

    def _ray(self, *words: str) -> None:
        done = subprocess.run(
            ["ray", *words],
            env=self._environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if done.returncode:
            raise SystemExit(f"kills: ray {words[1]} failed: {done.stderr[-500:]}")

    def processes(self, part: str) -> list[psutil.Process]:
        """Processes of this cluster whose command has `part` in its first words."""
        found = []
        for process in psutil.process_iter(["cmdline", "create_time"]):
            words = " ".join((process.info["cmdline"] or [])[:1])
            if part in words and self._is_ours(process):
                found.append(process)
        return sorted(found, key=lambda p: p.info["create_time"])

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == str(self.port)
        except psutil.Error:
            return False

    def kill(self, victim: str) -> bool:
        """SIGKILL a worker that trains, the raylet of the second node, or the head."""
        part = {"worker": "ray::run_chunk", "raylet": "raylet", "head": "gcs_server"}[victim]
        found = self.processes(part)
        if found:
            found[-1].kill()
        return bool(found)

    def stop(self) -> None:
        """End what is left of this cluster, and nothing else."""
        for process in psutil.process_iter():
            if self._is_ours(process):
                process.kill()


@contextmanager
def a_cluster(port: int) -> Iterator[RayCluster]:
    folder = Path(f"/tmp/capax-ray-{port}")  # short: sockets lie in it
    cluster = RayCluster(port, folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def kill_on_ray(place, kills: int, dice: random.Random) -> Counter:
    """Lives of a sweep: each loses a worker or two, then a raylet, the head or its driver."""
    (place.folder / "sweep.toml").write_text(RAY_SWEEP)
    whole = place.folder / "whole.sqlite"
    place.run("sweep", "sweep.toml", "--store", whole)
    wanted = results(whole)
    count: Counter = Counter()
    store, port = place.folder / "ray.sqlite", 20_000 + os.getpid() % 20_000
    for number in itertools.count():
        done = sum(count[victim] for victim in VICTIMS)
        if done >= kills:
            break
        victim = VICTIMS[1 + number % 3]
        workers = min(1 + number % 2, kills - done - 1)
        with a_cluster(port + 10 * number) as cluster:
            _one_life(place, cluster, store, victim, workers, dice, count)
        print(f"  {victim}: {dict(count)}", file=sys.stderr, flush=True)
        if store.exists() and count["finished"]:
            must(results(store) == wanted, "other results on the cluster")
            store.unlink()
            count["whole"] += count.pop("finished")
    place.run("sweep", "sweep.toml", "--store", store)
    must(results(store) == wanted, "other results after the last resume")
    return count


def _one_life(place, cluster, store, victim, workers, dice, count: Counter) -> None:
    """A sweep that loses `workers` workers and then the victim."""
    process = place.start("sweep", "sweep.toml", "--store", store, "--on", "ray", "--address",
                          cluster.address, "--json")  # fmt: skip
    before, end = num_trials(store), time.monotonic() + PATIENCE
    for left in range(workers, -1, -1):
        enough = before + dice.randint(2, 12)
        while process.poll() is None and time.monotonic() < end:
            if num_trials(store) >= enough:
                break
            time.sleep(0.05)
        if process.poll() is not None:
            break
        if left:
            count["worker"] += cluster.kill("worker")
        elif victim == "driver":
            process.send_signal(signal.SIGKILL)
            count["driver"] += 1
        else:
            count[victim] += cluster.kill(victim)
        before = num_trials(store)
    out, said = process.communicate(timeout=PATIENCE)
    if process.returncode == 0:
        must(_is_json(out), f"standard output is no JSON without the {victim}: {out!r}")
        count["finished"] += 1
        return
    must(not out.strip(), f"standard output of a failed sweep: {out[:200]!r}")
    if process.returncode == -9:
        return
    errors = [line for line in said.splitlines() if line.startswith("error")]
    must(process.returncode == 2, f"exit code {process.returncode} without the {victim}: {said}")
    must(len(errors) == 1, f"said {said!r} without the {victim}")
    count["refused"] += 1


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def delete_stores(place, deletions: int, dice: random.Random) -> Counter:
    """The store is deleted, moved or replaced while a sweep writes it: noticed, nothing lost."""
    (place.folder / "sweep.toml").write_text(RAY_SWEEP)
    count: Counter = Counter()
    ways = ("deleted", "moved", "replaced", "folder moved")
    for number in range(deletions):
        way, folder = ways[number % len(ways)], place.folder / f"stores{number}"
        folder.mkdir()
        store = folder / "s.sqlite"
        process = place.start("sweep", "sweep.toml", "--store", store, "--json")
        enough, end = dice.randint(3, 60), time.monotonic() + PATIENCE
        while num_trials(store) < enough and process.poll() is None:
            must(time.monotonic() < end, "no trials came")
            time.sleep(0.02)
        if way == "deleted":
            store.unlink()
        elif way == "moved":
            store.rename(folder / "elsewhere.sqlite")
        elif way == "replaced":
            store.unlink()
            store.write_bytes(b"another file")
        else:
            folder.rename(place.folder / f"gone{number}")
        out, said = process.communicate(timeout=PATIENCE)
        must(process.returncode == 2, f"{way}: exit code {process.returncode}: {said}")
        must(not out.strip(), f"{way}: standard output {out[:200]!r}")
        errors = [line for line in said.splitlines() if line.startswith("error")]
        must(len(errors) == 1, f"{way}: said {said!r}")
        count[way] += 1
    return count
