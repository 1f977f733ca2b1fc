"""What recording hidden progress costs: chunks of training with and without it, side by side.

    python benchmarks/progress_cost.py [--lengths 10 50] [--models N] [--batch 512] [--every 100]

Both are timed in turns on the same slots in the same state, so that load from outside meets both;
the ratio of the medians is the answer. At most 5 % is wanted.
"""

import argparse
import json
import statistics
import time

import jax

from capax.attention.transformer import TransformerSpec
from capax.data.task import TaskSpec
from capax.training.programs.seeds import pool_for, seed_for
from capax.training.programs.shape import program_of
from capax.training.slots.slots import Slots
from capax.training.specs.hardware import Hardware
from capax.training.specs.trial_specs import OptimiserSpec, TrialSpec


def trial_at(T: int, s: int, batch: int, every: int, d: int) -> TrialSpec:
    """A run of the experiment `parity`."""
    task = TaskSpec(function=f"parity{s}", T=T, m=batch, p=0.5, reject_ambiguous=False)
    model = TransformerSpec(T=T, d=d, heads=d // 4, mlp_width=4 * d)
    return TrialSpec(
        task=task, model=model, optimiser=OptimiserSpec(name="adam", lr=3e-4), mode="online",
        batch_size=batch, steps=every, eval_every=every, restarts=1,
    )  # fmt: skip


def cost(trial: TrialSpec, models: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of a chunk and of a look, and what the look adds."""
    hardware = Hardware(workers=1)
    program = program_of(trial, hardware)
    device, options = hardware.all_devices[0], hardware.compiler_options()
    slots = Slots(program, device, models, [pool_for(trial.task)], options, progress=True)
    slots.admit({i: seed_for(trial.run(0), None, program) for i in range(models)})
    chunks, looks = [], []
    slots.advance(range(models)), slots.progress()
    for _ in range(rounds):
        began = time.perf_counter()
        slots.advance(range(models))
        between = time.perf_counter()
        slots.progress()
        chunks.append(between - began)
        looks.append(time.perf_counter() - between)
    chunk, look = statistics.median(chunks), statistics.median(looks)
    return {"chunk_ms": 1e3 * chunk, "look_ms": 1e3 * look, "added": look / chunk}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lengths", type=int, nargs="+", default=[10, 20, 50])
    parser.add_argument("--bits", type=int, default=3)
    parser.add_argument("--models", type=int, default=1)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, {given.models} models, batch {given.batch}")
    for T in given.lengths:
        trial = trial_at(T, given.bits, given.batch, given.every, given.width)
        found = {"T": T, **cost(trial, given.models, given.rounds)}
        print(json.dumps({k: round(v, 5) for k, v in found.items()}), flush=True)


if __name__ == "__main__":
    main()
