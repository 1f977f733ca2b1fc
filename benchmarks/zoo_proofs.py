"""Deep sets and linear attention, trained on and3: read, then proved or refuted on all inputs.

python benchmarks/zoo_proofs.py FOLDER [--runs 6] [--only sets20,linear50]: trains what is missing
in FOLDER, then prints one JSON line per network.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from capax.data import TaskSpec
from capax.decompile.decompiling import decompile
from capax.decompile.modules.zoo_reading import ZooNetwork
from capax.learners.zoo.deep_sets import DeepSets
from capax.learners.zoo.linear_attention import LinearAttention

# name -> architecture, T, m
SETS = {
    "sets20": (DeepSets, 20, 1000),
    "sets50": (DeepSets, 50, 2000),
    "linear20": (LinearAttention, 20, 500),
    "linear50": (LinearAttention, 50, 1000),
}


def trained(folder, name, runs):
    """The files of a set of runs; those that are missing are trained."""
    from capax.training import TrialSpec, train

    kind, T, m = SETS[name]
    paths = [folder / f"{name}-{seed}.npz" for seed in range(runs)]
    trials = [
        TrialSpec(
            task=TaskSpec(function="and3", T=T, m=m, seed=seed), model=kind(T=T),
            steps=1000, eval_every=50, restarts=1,
        )
        for seed, path in enumerate(paths) if not path.is_file()
    ]  # fmt: skip
    if trials:
        for result in train(trials, keep="final", max_m=m, early_exit=False):
            run, path = result.runs[0], paths[result.spec.task.seed]
            arrays = {key: np.asarray(value) for key, value in run.parameters.items()}
            np.savez(path, outcome=run.outcome, **arrays)
    return paths


def verdict(path, name):
    """One row about a network."""
    kind, T, _ = SETS[name]
    arrays = dict(np.load(path))
    outcome = str(arrays.pop("outcome", "?"))
    began, cpu = time.time(), time.process_time()
    found = decompile(ZooNetwork(kind(T=T), arrays), T=T)
    whole = found.all_inputs
    return {
        "file": path.name, "outcome": outcome, "formula": found.formula.text,
        "agreement": found.agreement.value, "status": whole.status, "margin": whole.margin,
        "found_margin": whole.found_margin, "asked_all": whole.asked_all, "method": whole.method,
        "wall_s": round(time.time() - began, 1), "cpu_s": round(time.process_time() - cpu, 1),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--only", default=",".join(SETS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for chosen in given.only.split(","):
        for file in trained(given.folder, chosen, given.runs):
            print(json.dumps(verdict(file, chosen)), flush=True)
