"""Two-layer Transformers on all inputs: read, run in float64 with a bound of the rounding, decided.

python benchmarks/two_layers.py FOLDER [--block 65536] [--seconds 200]: one JSON line per file.
--search: no run of all inputs; a wrong input that the search finds is confirmed in real arithmetic.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from capax.attention import load
from capax.decompile.decompiling import Effort, decompile
from capax.decompile.machine.every_input import every_input, real_logit
from capax.decompile.proof.counterexample import search_by_asking
from capax.decompile.reading.oracle import oracle


def decided(path, block, search):
    """One row: what was searched, then what all inputs say."""
    model = load(path)[0]
    began = time.time()
    f = decompile(model, effort=Effort(cells=0)).function
    worst = search_by_asking(oracle(model), f, np.random.default_rng(0), 0.5)
    row = {"file": path.name, "T": model.spec.T, "d": model.spec.d, "support": list(f.support)}
    row |= {"found_margin": None if worst is None else worst.margin, "read_s": time.time() - began}
    if search:
        value, error = real_logit(model, worst.bits)
        wrong = bool(f(worst.bits) > 0.5) != (value > 0) and abs(value) > error
        row |= {"status": "refuted" if wrong else "open", "logit": value, "error": error}
        return row | {"inputs": worst.inputs, "ones": np.flatnonzero(worst.bits).tolist()}
    began = time.time()
    found = every_input(model, f, block=block)
    status = "open" if not found.decided else "refuted" if found.margin < 0 else "proved"
    row |= {"status": status, "margin": found.margin, "error": found.error}
    row |= {"error32": found.error32, "ones": np.flatnonzero(found.bits).tolist()}
    return row | {"table": [int(v) for v in f.table], "run_s": time.time() - began}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--block", type=int, default=1 << 11)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--names", default="*")
    parser.add_argument("--search", action="store_true")
    given = parser.parse_args()
    start, longest = time.time(), 0.0
    for file in sorted(given.folder.glob(given.names + ".safetensors")):
        if time.time() - start + longest > given.seconds:
            break
        before = time.time()
        print(json.dumps(decided(file, given.block, given.search)), flush=True)
        longest = time.time() - before
