"""What a training step costs at one T, by number of models and of examples, and what it is made of.

    python benchmarks/steps.py --T 100000 --width 8 64 160 --rows 144 256 --kernels 15

One line of JSON for each width and number of rows: seconds until the first chunk may start, of
chunks of 100 steps with their evaluation, of an examination of 2048 rows, and on request the
kernels that take longest, by JAX's profiler. `--piece` cuts positions into other pieces than usual
where a step is one kernel; `--piece 100000` leaves them whole.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from capax.attention.transformer import TransformerSpec
from capax.data.task import TaskSpec, Training, validation_inputs
from capax.training import Hardware, OptimiserSpec, TrialSpec
from capax.training.fused import step_kernel
from capax.training.programs.seeds import seed_for, training_for
from capax.training.programs.shape import program_of
from capax.training.slots.slots import Slots


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def chunk(trial: TrialSpec, training: Training | None, width: int, kernels: int) -> dict[str, Any]:
    """Times of a chunk of `width` models, all on the same examples, each from its weights."""
    hardware, task = Hardware(slots=width), trial.task
    program = program_of(trial, hardware, task.m)
    pool = validation_inputs(task.T, task.probability, task.validation_size)
    lane, _ = seed_for(trial.run(0), training, program)
    keys = np.random.default_rng(0).integers(0, 2**32, (width, 2), np.uint32)
    began = time.perf_counter()
    slots = Slots(program, hardware.all_devices[0], width, [pool], hardware.compiler_options())
    slots.admit({i: (lane, keys[i]) for i in range(width)})
    slots.advance(range(width))
    ready = time.perf_counter() - began
    times = [timed(lambda: slots.advance(range(width))) for _ in range(3)]
    slots.examine([0])
    entry = {
        "T": task.T,
        "rows": program.rows,
        "width": width,
        "ready_s": round(ready, 2),
        "chunk_s": [round(t, 4) for t in times],
        "us_per_step_and_model": round(min(times) / program.chunk / width * 1e6, 2),
        "examine_s": round(timed(lambda: slots.examine([0])), 4),
    }
    if kernels:
        entry["kernels"] = longest(lambda: slots.advance(range(width)), kernels)
    return entry


def longest(work: Callable[[], object], most: int) -> dict[str, list[float]]:
    """Milliseconds and calls of the longest kernels of `work`, by JAX's profiler."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            work()
        trace = next(Path(folder).rglob("perfetto_trace.json.gz"))
        events = json.loads(gzip.decompress(trace.read_bytes()))
    events = events if isinstance(events, list) else events["traceEvents"]
    lanes = {
        (e["pid"], e.get("tid")): e["args"]["name"]
        for e in events
        if e.get("name") == "thread_name"
    }
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for e in events:
        if "dur" in e and "stream" in lanes.get((e["pid"], e.get("tid")), "").lower():
            sums[e["name"]][0] += e["dur"] / 1e3
            sums[e["name"]][1] += 1
    first = sorted(sums.items(), key=lambda item: -item[1][0])[:most]
    return {name[:90]: [round(ms, 2), calls] for name, (ms, calls) in first}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--T", type=int, required=True)
    parser.add_argument("--width", type=int, nargs="+", default=[8])
    parser.add_argument("--rows", type=int, nargs="+", default=[256])
    parser.add_argument("--kernels", type=int, default=0, help="list so many kernels of a chunk")
    parser.add_argument("--piece", type=int, default=step_kernel.PIECE, help="positions of a block")
    given = parser.parse_args()
    step_kernel.PIECE = given.piece
    for m in given.rows:
        task = TaskSpec(T=given.T, m=m, reject_ambiguous=False, validation_size=2048)
        trial = TrialSpec(
            task=task, model=TransformerSpec(T=given.T), optimiser=OptimiserSpec(), restarts=1
        )
        training = training_for(trial.run(0))
        for width in given.width:
            try:
                found = chunk(trial, training, width, given.kernels)
            except jax.errors.JaxRuntimeError as error:  # not enough memory: the others may fit
                found = {"T": given.T, "rows": m, "width": width, "error": str(error)[:200]}
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
