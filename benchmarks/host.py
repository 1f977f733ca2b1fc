"""What the host does during a sweep: everything but the training itself, which is played.

A played device takes `--chunk` milliseconds for a chunk of steps of all its models and solves a run
with a probability that depends on m. What is left is the work of the host: drawing and judging
training sets, padding them, keeping records, writing the store. The device idles while it waits.

    python benchmarks/host.py --T 300 --trials 40 --slots 256 --chunk 30
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from capax.sweep.experiments.shipped import experiment_path
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.families import lanes_family
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store
from capax.training import Hardware
from capax.training.programs.program import LaneMeasures
from capax.training.slots import worker as worker_module

CHUNKS = {"busy": 0.0, "number": 0, "idle": 0.0, "last": 0.0}


class PlayedSlots:
    """Slots that train nothing: each run is solved at its fourth evaluation, or never."""

    chunk_seconds = 0.03

    def __init__(self, program, device, width, pool, options):
        del device, options
        self.program, self.width, self.n = program, width, len(pool)
        self.age = np.zeros(width, int)
        self.solves = np.zeros(width, bool)

    def admit(self, seeds):
        for slot, (lane, words) in seeds.items():
            m = int(lane.data.mask.sum())
            chance = 1 - (1 - 1 / (1 + np.exp(-(m - 60) / 8))) ** 0.2
            self.age[slot], self.solves[slot] = 0, (words[0] / 2**32) < chance

    def advance(self, busy):
        del busy
        began = time.perf_counter()
        CHUNKS["idle"] += began - CHUNKS["last"] if CHUNKS["last"] else 0.0
        time.sleep(self.chunk_seconds)
        CHUNKS["last"] = time.perf_counter()
        CHUNKS["busy"] += CHUNKS["last"] - began
        CHUNKS["number"] += 1
        self.age += 1
        done = self.solves & (self.age >= 4)
        part = min(worker_module.SUBSET, self.n)
        ones = np.ones(self.width, np.float32)
        correct = np.where(done, part, part // 2).astype(np.int32)
        return LaneMeasures(loss=ones, train_accuracy=ones, correct=correct, mass=ones)

    def examine(self, slots):
        return np.full(len(slots), self.n), np.ones(len(slots), np.float32)


def play(T: list[int], trials: int, slots: int, chunk: float, jobs: int) -> dict:
    """Run the paper's protocol at some T on the played device; seconds and the device's share."""
    worker_module.Slots = PlayedSlots
    PlayedSlots.chunk_seconds = chunk / 1000
    lanes_family._hardware = lambda *_: Hardware(slots=slots, workers=1)
    plan = load_experiment(experiment_path("figure2"), "grid")
    search = plan.panels[0].search.model_copy(update={"trials": trials})
    panel = plan.panels[0].model_copy(update={"T": tuple(T), "search": search})
    plan = plan.model_copy(update={"panels": (panel,)})
    CHUNKS.update(busy=0.0, number=0, idle=0.0, last=0.0)
    lanes_family.LanesFamily.prepare = lambda *_: None
    with tempfile.TemporaryDirectory() as folder:
        began, cpu = time.perf_counter(), time.process_time()
        with Store.create_or_resume(Path(folder) / "s.sqlite", plan) as store:
            status = run_sweep(plan, store, jobs_at_once=jobs)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "T": T,
        "trials": status.trials,
        "runs": status.runs,
        "seconds": round(seconds, 2),
        "device_seconds": round(CHUNKS["busy"], 2),
        "chunks": CHUNKS["number"],
        "idle_seconds_between_chunks": round(CHUNKS["idle"], 2),
        "cpu_seconds": round(cpu, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--T", type=int, nargs="+", default=[300])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--slots", type=int, default=256)
    parser.add_argument("--chunk", type=float, default=30.0, help="milliseconds per chunk")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    print(json.dumps(play(given.T, given.trials, given.slots, given.chunk, given.jobs)))


if __name__ == "__main__":
    main()
