"""The reference cards on one machine: a process for every few learners, some of them at a time.

python benchmarks/reference_cards.py --out stores --minutes 25     # the same command goes on
capax card --reference --distil $(printf -- '--store %s ' stores/*.sqlite)  # it travels

Every process has a store of its own. Those on a GPU share it (`capax.sweep.running.sharing`):
learners whose kernels are short wait for their launches and leave the rest to those with long ones,
who come second where both could go on. Fits begin after a minute: until then all cores compile.
A process that has not stopped half a minute after the time is over is ended: a store loses nothing
by that.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from capax.sweep.running.sharing import has_gpu, multi_process_service

GROUPS = {
    "mixer": ("mixer",),
    "gru": ("gru",),
    "lstm": ("lstm",),
    "cnn": ("cnn",),
    "ssm": ("ssm",),
    "transformer2": ("transformer2",),
    "attention": ("transformer", "linear_attention"),
    "tables": ("mlp", "deep_sets"),
    "linear": ("lasso", "ridge"),
    "trees": ("tree", "forest", "boosting"),
    "others": ("neighbours", "version_space"),
}
SECOND = ("gru", "lstm", "ssm")  # groups with long kernels, and less work than the mixer and cnn
FITTED = {"linear": 4, "trees": 3, "others": 1}  # groups that need no GPU, and their parts of cores
COMPILED = 60.0  # seconds in which most programs are compiled


def own_cores(group: str, cores: list[int]) -> list[int]:
    """A fitted group's part of these cores; none if there are too few to divide."""
    parts, place = list(FITTED.values()), list(FITTED).index(group)
    first, last = (len(cores) * sum(parts[:k]) // sum(parts) for k in (place, place + 1))
    return cores[first:last]


def started(group: str, options: argparse.Namespace, minutes: float, settings: dict[str, str]):
    """One process; on cores of its own where it needs no GPU: each of its learners starts as many
    processes for fits as it has cores."""
    cores, fitted = sorted(os.sched_getaffinity(0)), group in FITTED
    environment = {**os.environ, **({"JAX_PLATFORMS": "cpu"} if fitted else settings)}
    if group in SECOND:
        environment["CUDA_MPS_CLIENT_PRIORITY"] = "1"  # below the others
    command = [sys.executable, "-m", "capax.cli", "card", *GROUPS[group], "--reference"]
    command += ["--store", str(options.out / f"{group}.sqlite")]
    jobs = 3 if fitted else options.jobs
    command += ["--minutes", f"{minutes:.2f}", "--jobs", str(jobs)]
    with (options.out / f"{group}.log").open("a") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    if fitted:
        if own := own_cores(group, cores):
            os.sched_setaffinity(process.pid, own)
        os.setpriority(os.PRIO_PROCESS, process.pid, 15)  # compilations first
    elif len(cores) >= 8:
        # With few cores a process compiles one program after the other, and trains by the first
        # one while it compiles the next.
        first = len(cores) // 8 * list(GROUPS).index(group)
        quarter = [cores[(first + i) % len(cores)] for i in range(len(cores) // 4)]
        os.sched_setaffinity(process.pid, quarter)
    return process


def run(options: argparse.Namespace, settings: dict[str, str]) -> None:
    """All groups, those on the GPU in their order, `at_once` of them."""
    began = time.monotonic()
    end = began + 60 * options.minutes
    waiting, running = list(options.groups), {}
    while waiting or running:
        for group, process in list(running.items()):
            if time.monotonic() > end + 30:
                process.kill()
            if process.poll() is not None:
                print(f"{group}: {process.wait()}, {time.monotonic() - began:.0f} s", flush=True)
                del running[group]
        left = (end - time.monotonic()) / 60
        networks = set(options.groups) - set(FITTED)
        compiling = networks and time.monotonic() - began < COMPILED
        busy = len(networks & set(running))
        for group in list(waiting):
            if not compiling if group in FITTED else busy < options.at_once:
                waiting.remove(group)
                if left > 0:
                    busy += group not in FITTED
                    running[group] = started(group, options, left, settings)
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument(
        "--jobs",
        type=int,
        default=2,
        help="lengths at once in each process on the GPU",
    )
    parser.add_argument("--at-once", type=int, default=8, help="processes at once on the GPU")
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    # Twice an equal part: not all of them have their longest inputs at the same time.
    part = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{min(0.92, 2 / options.at_once):.3f}",
    }
    with multi_process_service() as shared:
        run(options, {**part, **shared} if has_gpu() else {})


if __name__ == "__main__":
    main()
