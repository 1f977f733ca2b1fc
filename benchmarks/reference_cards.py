"""The reference cards on one machine: a process for every few learners, all on the same GPU.

python benchmarks/reference_cards.py --out stores --minutes 25     # the same command goes on
capax card --reference --distil --store stores/*.sqlite            # then: what the package carries

Every process has a store of its own. On one GPU they take turns; where NVIDIA's multi-process
service can be started they run side by side, which is what small kernels need. Whoever has not
stopped by itself half a minute after the time is over is ended: a store loses nothing by that.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

GROUPS = {
    "attention": ("transformer", "linear_attention"),
    "tables": ("mlp", "deep_sets"),
    "transformer2": ("transformer2",),
    "cnn": ("cnn",),
    "lstm": ("lstm",),
    "gru": ("gru",),
    "ssm": ("ssm",),
    "mixer": ("mixer",),
    "linear": ("lasso", "ridge"),
    "trees": ("tree", "forest", "boosting"),
    "others": ("neighbours", "version_space"),
}
FITTED = ("linear", "trees", "others")  # groups that need no GPU
_PROBE = "import jax; print(jax.numpy.ones(8).sum())"


def shared_gpu(folder: Path) -> dict[str, str]:
    """Settings of processes that share a GPU; with the service only if a program runs under it."""
    plain = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    pipe, log = folder / "mps", folder / "mps-log"
    pipe.mkdir(parents=True, exist_ok=True)
    log.mkdir(exist_ok=True)
    served = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(log)}
    environment = {**os.environ, **plain, **served}
    try:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True, timeout=20)
        subprocess.run([sys.executable, "-c", _PROBE], env=environment, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"no multi-process service: {error}", flush=True)
        try:
            quit_ = ["nvidia-cuda-mps-control"]
            subprocess.run(quit_, env=environment, input=b"quit\n", timeout=20, check=False)
        except (OSError, subprocess.SubprocessError):
            pass
        return plain
    print("multi-process service: on", flush=True)
    return {**plain, **served}


def started(group: str, out: Path, minutes: float, jobs: int, settings: dict[str, str]):
    """One process; on cores of its own where it needs no GPU."""
    cores, fitted = sorted(os.sched_getaffinity(0)), group in FITTED
    environment = {**os.environ, **settings}
    half = cores[len(cores) // 2 :]
    if fitted:
        environment["JAX_PLATFORMS"] = "cpu"
    command = [sys.executable, "-m", "capax.cli", "card", *GROUPS[group], "--reference"]
    command += ["--store", str(out / f"{group}.sqlite")]
    command += ["--minutes", f"{minutes:.2f}", "--jobs", str(jobs)]
    with (out / f"{group}.log").open("a") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    if fitted and len(half) > 1:
        os.sched_setaffinity(process.pid, half)
        os.setpriority(os.PRIO_PROCESS, process.pid, 15)  # compilations first
    return process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--jobs", type=int, default=2, help="questions at once in each process")
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/reference-cards"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    on_gpu = any(group not in FITTED for group in options.groups)
    settings = shared_gpu(options.scratch) if on_gpu else {}
    minutes = options.minutes - (time.monotonic() - began) / 60
    running = {
        group: started(
            group, options.out, minutes, 3 if group in FITTED else options.jobs, settings
        )
        for group in options.groups
    }
    end = began + 60 * options.minutes + 30
    while any(process.poll() is None for process in running.values()) and time.monotonic() < end:
        time.sleep(1)
    for group, process in running.items():
        if process.poll() is None:
            process.kill()
        print(f"{group}: {process.wait()}, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
