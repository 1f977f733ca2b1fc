"""The engine against naive JAX and PyTorch: table, JSON and plot. One run, one machine.

python benchmarks/engine.py --out out/engine             # the table of `capax bench`, and a plot
python benchmarks/engine.py --job 1000                   # a job with and without early exit
python benchmarks/engine.py --long 100000                # T = 100 000 trains
"""

import argparse
import json
import sys
import time
from pathlib import Path

from capax.attention.transformer import TransformerSpec
from capax.data.task import TaskSpec
from capax.training import Hardware, OptimiserSpec, TrialSpec, train
from capax.training.speed.benchmark import LENGTHS, benchmark

CURVES = {
    "torch_full_ms": "PyTorch, all tokens",
    "torch_cls_ms": "PyTorch, [CLS] query only",
    "naive_jax_ms": "JAX, the model as written",
    "capax_ms": "Capax",
}


def plot(report: dict, target: Path) -> None:
    """Time per step and model against T, log-log."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), constrained_layout=True)
    lengths = [int(T) for T in report["T"]]
    for key, label in CURVES.items():
        times = [report["T"][str(T)][key] for T in lengths]
        if None not in times:
            axes.loglog(lengths, times, marker="o", label=label)
    axes.set(xlabel="T", ylabel="ms per training step and model", title=report["device"])
    axes.legend()
    figure.savefig(target)


def job(runs: int, T: int, m: int, slots: int | None) -> dict:
    """The same runs with and without early exit: seconds and solved sets.

    On a GPU there is something to gain only with fewer slots than runs.
    """
    model, rates = TransformerSpec(T=T), OptimiserSpec()
    # few validation rows: solved runs that stay would examine all of them again and again
    tasks = [TaskSpec(T=T, m=m, seed=seed, validation_size=512) for seed in range(runs)]
    trials = [TrialSpec(task=task, model=model, optimiser=rates, restarts=1) for task in tasks]
    found, seconds, hardware = {}, {}, Hardware(slots=slots)
    list(train(trials[:2], hardware=hardware))  # compiles, before the clock runs
    for early in (True, False):
        began = time.perf_counter()
        results = list(train(trials, hardware=hardware, early_exit=early))
        seconds[early] = time.perf_counter() - began
        found[early] = {r.spec.task.seed for r in results if r.solved}
    return {
        "runs": runs,
        "early_exit_s": seconds[True],
        "no_exit_s": seconds[False],
        "speedup": seconds[False] / seconds[True],
        "solved": len(found[True]),
        "same_solved_set": found[True] == found[False],
    }


def long(T: int, runs: int) -> dict:
    """A few models at a very large T."""
    task = {"T": T, "m": 60, "reject_ambiguous": False, "validation_size": 1000}
    trials = [
        TrialSpec(
            task=TaskSpec(**task, seed=seed),
            model=TransformerSpec(T=T),
            steps=20,
            eval_every=10,
            restarts=1,
        )
        for seed in range(runs)
    ]
    began = time.perf_counter()
    results = list(train(trials))
    losses = [list(result.runs[0].evals["loss"]) for result in results]
    return {"T": T, "runs": runs, "seconds": time.perf_counter() - began, "losses": losses}


def main() -> None:
    """Run what was asked for and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--T", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--m", type=int, default=60)
    parser.add_argument("--budget", type=float, default=3.0)
    parser.add_argument("--out", type=Path, help="write <out>.json and <out>.svg")
    parser.add_argument("--job", type=int, help="runs of an early-exit job at T[0], m")
    parser.add_argument("--slots", type=int, help="runs at once on each worker, for --job")
    parser.add_argument("--long", type=int, help="a T to train a few models at")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(job(options.job, options.T[0], options.m, options.slots)))
    elif options.long:
        print(json.dumps(long(options.long, 2)))
    else:
        say = lambda text: print(text, file=sys.stderr)  # noqa: E731
        report = benchmark(tuple(options.T), m=options.m, budget=options.budget, say=say)
        print(json.dumps(report, indent=2))
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.with_suffix(".json").write_text(json.dumps(report, indent=2))
            plot(report, options.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
