"""How long the theory takes on this machine: seconds per task, best of three. One run, one table.

python benchmarks/theory.py
"""

import time
from collections.abc import Callable

import numpy as np

from capax.boolean import parse, survivors
from capax.capacity.covers.covering_curve import covering_curve
from capax.capacity.covers.covering_sets import greedy_cover
from capax.capacity.covers.metrics import space_from_points
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.checkpoint_norms import checkpoint_blocks, head_table, whole_network
from capax.data import TaskSpec, draw_training


def seconds(task: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def and_sample(T: int, m: int) -> tuple:
    f = parse("and3").on((17, T // 2, T - 9), T)
    X = (np.random.default_rng(5).random((m, T), dtype=np.float32) < 2 ** (-1 / 3)).astype("uint8")
    return f, X, f(X)


def gpt2_like(d: int, n: int, layers: int) -> dict[str, np.ndarray]:
    """Random weights under GPT-2's names."""
    rng = np.random.default_rng(0)
    weights = {}
    shapes = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d)}
    shapes |= {"mlp.c_fc": (d, n), "mlp.c_proj": (n, d)}
    for i in range(layers):
        for name, shape in shapes.items():
            weights[f"transformer.h.{i}.{name}.weight"] = 0.02 * rng.normal(size=shape)
            weights[f"transformer.h.{i}.{name}.bias"] = np.zeros(shape[1])
        for name in ("ln_1", "ln_2"):
            weights[f"transformer.h.{i}.{name}.weight"] = np.ones(d)
            weights[f"transformer.h.{i}.{name}.bias"] = np.zeros(d)
    return weights


def whole_checkpoint(weights: dict[str, np.ndarray], sample: Sample) -> object:
    blocks = checkpoint_blocks(weights, 12)
    return head_table(blocks, sample), whole_network(blocks).cover(sample, 1.0)


def main() -> None:
    f, X, y = and_sample(100_000, 1000)
    rng = np.random.default_rng(11)
    many, few = rng.random((2000, 2)), rng.random((60, 2))
    weights, sample = gpt2_like(768, 3072, 12), Sample(10_000, 1024)
    specs = [TaskSpec(T=300, m=60, seed=seed) for seed in range(20)]
    tasks: dict[str, Callable[[], object]] = {
        "version space, AND, T = 100 000, m = 1 000": lambda: survivors(f, X, y),
        "20 training sets, T = 300, m = 60": lambda: [draw_training(spec) for spec in specs],
        "greedy cover of 2 000 points": lambda: greedy_cover(space_from_points(many), 0.1),
        "exact covering curve of 60 points": lambda: covering_curve(space_from_points(few)),
        "bounds of 12 layers, d = 768": lambda: whole_checkpoint(weights, sample),
    }
    for name, task in tasks.items():
        print(f"{name:48s} {seconds(task):8.3f} s")


if __name__ == "__main__":
    main()
