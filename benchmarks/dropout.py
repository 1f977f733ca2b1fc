"""A training step with dropout: ours against PyTorch one by one and batched by hand, in one run.

    python benchmarks/dropout.py --T 800 --m 100            # on a GPU: also a CUDA graph
    python benchmarks/dropout.py --T 300 --m 60 --models 2  # on two cores

On a GPU also the three kernels by themselves, and their share of the tensor cores' ceiling: 216
products of 16 x 8 x 16 for every 16 tokens of an example (48 forward, 72 for U, 96 for the table).
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from capax.sweep.experiments.shipped import experiment_path
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.families.known_families import family_of
from capax.training.dropout import token_kernel
from capax.training.fused.step import pack
from capax.training.specs.hardware import Hardware
from capax.training.specs.trial_specs import TrialSpec
from capax.training.speed.benchmark import capax_seconds
from capax.training.speed.roofline import best_of

FLOPS_PER_TOKEN = 216 * 2 * 16 * 8 * 16 / 16
PEAK = 790e12  # bfloat16 products per second, measured on one H200


def published_trial(T: int, m: int) -> TrialSpec:
    """A trial of the published Figure 2, with few validation rows."""
    panel = load_experiment(experiment_path("figure2"), "published").panels[0]
    task = {**panel.task, "validation_size": 512, "reject_ambiguous": False}
    panel = panel.model_copy(update={"task": task})
    return family_of(panel).trial(panel, T, m, 0).spec


def kernel_times(T: int, m: int, models: int, trial: TrialSpec) -> dict[str, float]:
    """Microseconds of each kernel per model."""
    source, key = token_kernel.ptx(trial.dropout), jax.random.key(0)
    normal = lambda *shape: 0.3 * jax.random.normal(key, (models, *shape), jnp.float32)  # noqa: E731
    table = jax.jit(jax.vmap(token_kernel.packed_table))(normal(64, T), normal(2, 64))
    bits = jax.random.bernoulli(key, 0.5, (models, m, T)).astype(jnp.uint8)
    fixed = (
        jax.vmap(pack)(bits),
        jnp.full(models, m, jnp.int32),
        jnp.ones((models, 3), jnp.uint32),
    )
    U, slopes = normal(m, 16, 64), (normal(m, 16, 64), normal(m, 16), normal(m, 16))
    mu = token_kernel._forward(source, table, U, *fixed)[3]
    factors = token_kernel._backward_U(source, table, U, *fixed, mu, *slopes)[1]
    calls: dict[str, Callable] = {
        "forward": jax.jit(partial(token_kernel._forward, source, table, U, *fixed)),
        "backward_U": jax.jit(
            partial(token_kernel._backward_U, source, table, U, *fixed, mu, *slopes)
        ),
        "backward_table": jax.jit(
            partial(token_kernel._backward_table, source, table, factors, *fixed, mu, *slopes[1:])
        ),
    }
    return {
        name: 1e6 * best_of(lambda call=call: jax.block_until_ready(call()), 0.5) / models
        for name, call in calls.items()
    }


def torch_one_by_one(T: int, m: int, only_cls: bool, device: str) -> float:
    """Seconds of a step of one PyTorch model."""
    import torch

    from capax.training.speed.torch_rivals import single_step

    step = single_step(T, m, 64, 16, 256, only_cls, dropout=0.1, device=device)

    def done() -> None:
        step()
        if device == "cuda":
            torch.cuda.synchronize()

    done()
    return best_of(done, 2.0, least=1)


def torch_graph(T: int, m: int, models: int) -> float:
    """Seconds per step and model of a CUDA graph of models batched by hand."""
    import torch

    from capax.training.speed.torch_rivals import batched_graph_step

    step = batched_graph_step(models, T, m, 64, 16, 256, dropout=True)

    def ten() -> None:
        for _ in range(10):
            step()
        torch.cuda.synchronize()

    ten()
    return best_of(ten, 2.0) / (10 * models)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--T", type=int, default=800)
    parser.add_argument("--m", type=int, default=100)
    parser.add_argument("--models", type=int, default=128)
    chosen = parser.parse_args()
    T, m, began = chosen.T, chosen.m, time.perf_counter()
    hardware = Hardware(slots=chosen.models if jax.default_backend() == "gpu" else None)
    trial = published_trial(T, m)
    found: dict[str, object] = {"device": str(hardware.all_devices[0].device_kind), "T": T, "m": m}
    us = 1e6
    if hardware.platform == "gpu":
        found["kernels_us"] = times = kernel_times(T, m, chosen.models, trial)
        found["share_of_ceiling"] = FLOPS_PER_TOKEN * T * m / PEAK / (sum(times.values()) / us)
        found["torch_graph_us"] = us * torch_graph(T, m, 8)
        found["torch_one_by_one_us"] = us * torch_one_by_one(T, m, False, "cuda")
        found["torch_cls_one_by_one_us"] = us * torch_one_by_one(T, m, True, "cuda")
    else:
        found["torch_cls_one_by_one_us"] = us * torch_one_by_one(T, m, True, "cpu")
    print(json.dumps(found), flush=True)
    found["capax_us"] = us * capax_seconds(trial, hardware, 2.0, chosen.models)
    found["seconds"] = time.perf_counter() - began
    print(json.dumps(found))


if __name__ == "__main__":
    main()
