"""What a step of the fused kernel costs by the size of its pieces of positions, on one H200.

    python benchmarks/pieces.py --T 100000 --models 75 --piece 0 33344 8192 4096 2048

One line of JSON for each size: milliseconds per step of all models, without any evaluation. A size
of 0 leaves positions whole, a block of threads for each model. m of the models is as in the trials
of `figure2 --scale beyond` at T = 100 000, or the same for all with `--m`.
"""

import argparse
import json
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from capax.attention.collapsed.one_layer import collapse
from capax.attention.transformer import Transformer, TransformerSpec
from capax.training.fused import step_kernel
from capax.training.specs.trial_specs import OptimiserSpec

SIZES = [48] * 5 + [50, 87, 87, 96, 111, 122, 135, 135, 142] + [149] * 7 + [156] * 2 + [210] * 5
SIZES += [244] * 2 + [256] * 3
ROWS, RULE = 256, OptimiserSpec()


def fresh(T: int, B: int) -> list[jax.Array]:
    """Parameters and moments of B models."""

    def leaves() -> list[jax.Array]:
        shapes = jax.eval_shape(
            lambda: collapse(Transformer.init(TransformerSpec(T=T), key=jax.random.key(0)))
        )
        made = []
        for i, x in enumerate(jax.tree.leaves(shapes)):
            one = 0.05 * jax.random.normal(jax.random.key(i), x.shape, jnp.float32)
            p = jnp.broadcast_to(one[None], (B, *x.shape))
            made += [p, jnp.zeros_like(p), jnp.full_like(p, 1e-8)]
        return made

    return jax.jit(leaves)()


def stepper(T: int, B: int, m: int, steps: int) -> Callable[[list[jax.Array]], list[jax.Array]]:
    """So many steps of all models, in place."""
    spec = TransformerSpec(T=T)
    sizes = np.array([m or SIZES[i % len(SIZES)] for i in range(B)])
    words = jax.random.bits(jax.random.key(1), (B, ROWS, -(-T // 32)), jnp.uint32)
    y = jnp.asarray(np.random.default_rng(0).integers(0, 2, (B, ROWS)), jnp.float32)
    weight = jnp.asarray((np.arange(ROWS) < sizes[:, None]) / sizes[:, None], jnp.float32)
    rates = jnp.tile(jnp.array([[10.0, 31.6, 1e-3, 0.1]], jnp.float32), (B, 1))
    sources = step_kernel.ptx(spec, RULE)

    def step(_: int, leaves: list[jax.Array]) -> list[jax.Array]:
        return step_kernel.launch(sources, spec.mlp_width, T, leaves, words, y, weight, rates)

    return jax.jit(lambda x: jax.lax.fori_loop(0, steps, step, x), donate_argnums=0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--T", type=int, default=100_000)
    parser.add_argument("--models", type=int, default=75)
    parser.add_argument("--m", type=int, default=0, help="examples of every model")
    parser.add_argument("--piece", type=int, nargs="+", default=[0, step_kernel.PIECE])
    parser.add_argument("--steps", type=int, default=4)
    given = parser.parse_args()
    for piece in given.piece:
        step_kernel.PIECE = piece or given.T
        run = stepper(given.T, given.models, given.m, given.steps)
        leaves, times = jax.block_until_ready(run(fresh(given.T, given.models))), []
        for _ in range(2):
            began = time.perf_counter()
            leaves = jax.block_until_ready(run(leaves))
            times.append((time.perf_counter() - began) / given.steps)
        line = {"T": given.T, "models": given.models, "m": given.m or "48 to 256"}
        line |= {"pieces": step_kernel.pieces(given.T)[0], "ms": round(1e3 * min(times), 2)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
