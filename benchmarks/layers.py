"""Two and more layers: a gradient by tables of pairs against the model as it is written.

python benchmarks/layers.py                                   # T = 50, m = 100, one model, JSON
python benchmarks/layers.py --T 50 200 --m 128 --models 128   # on a GPU, all models together

Both in one run on one device: seconds of a gradient, tokens per second, seconds to compile, the
compiler's bytes, and how far the gradients are apart (largest difference, in units of the largest
entry of its parameter). A CPU takes one model after the other, as the engine does.
"""

import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from capax.attention.transformer import TransformerSpec
from capax.training.speed.roofline import best_of
from capax.training.steps.objective import cross_entropy
from capax.training.steps.paths import NaivePath, path_for


def gradients(path, models, bits, y, on_cpu):
    """(gradients of all models, the numbers of this path)."""
    kept = jnp.ones(bits.shape[1], jnp.float32)

    def one(data):
        params, bits, y = data
        inputs = path.prepare(bits)
        return jax.grad(lambda p: cross_entropy(path.logits(p, inputs), y, kept))(params)

    each = (lambda data: lax.map(one, data)) if on_cpu else jax.vmap(one)
    start = time.perf_counter()
    program = jax.jit(each).lower((models, bits, y)).compile()
    compiled = time.perf_counter() - start
    found = jax.block_until_ready(program((models, bits, y)))
    seconds = best_of(lambda: jax.block_until_ready(program((models, bits, y))), 5.0)
    return found, {
        "seconds": seconds,
        "tokens_per_second": bits.size / seconds,
        "compile_seconds": compiled,
        "bytes": program.memory_analysis().temp_size_in_bytes,
    }


def apart(found, wanted):
    """The largest difference, in units of the largest entry of its parameter."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    shares = [np.abs(a - b).max() / np.abs(b).max() for a, b in pairs if np.abs(b).max() > 1e-7]
    return float(max(shares))


def measured(T, asked):
    """One row of the table."""
    sizes = {"d": asked.d, "heads": asked.heads, "mlp_width": asked.mlp_width}
    spec = TransformerSpec(T=T, layers=asked.layers, init_scale=0.2, **sizes)
    platform = jax.devices()[0].platform
    ours, written = path_for(spec, platform), NaivePath(spec, "to compare")
    random = np.random.default_rng(T)
    bits = jnp.asarray(random.integers(0, 2, (asked.models, asked.m, T)), jnp.uint8)
    y = jnp.asarray(random.integers(0, 2, (asked.models, asked.m)), jnp.float32)
    models = jax.vmap(ours.init)(jax.random.split(jax.random.key(T), asked.models))
    row = {"device": jax.devices()[0].device_kind, "T": T, "m": asked.m, "models": asked.models}
    found, row[ours.name] = gradients(ours, models, bits, y, platform == "cpu")
    wanted, row["naive"] = gradients(written, models, bits, y, platform == "cpu")
    row["apart"] = apart(*(jax.tree.map(np.asarray, x) for x in (found, wanted)))
    row["times_as_fast"] = row["naive"]["seconds"] / row[ours.name]["seconds"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--T", type=int, nargs="+", default=[50])
    for name, value in {"m": 100, "models": 1, "layers": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in {"d": 24, "heads": 6, "mlp-width": 96}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    asked = parser.parse_args()
    for T in asked.T:
        print(json.dumps(measured(T, asked)), flush=True)


if __name__ == "__main__":
    main()
