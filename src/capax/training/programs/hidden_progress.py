"""Measures of hidden progress, from the parameters of a run and its first ones.

They are a separate program: the program that trains is the same with and without them, so that
training cannot depend on them. The first parameters are drawn again from the run's key, which takes
no memory between two evaluations.

**Cost.** An evaluation computes 2 n outputs, n and n with one bit flipped, against `chunk` steps of
`rows` examples, forward and backward (three times the work of an output). With n = chunk rows / 32
that is 2 / 96 of the work of training.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt8, UInt32

from capax.training.programs.evaluating import labels
from capax.training.programs.program import Program, TargetBits
from capax.training.specs.progress_names import NAMES
from capax.training.steps.paths import Path

_SHARE = 32  # one output for so many examples of a chunk, and once more with a flipped bit
_FEWEST, _MOST = 64, 4096
_ATTENTION = 1 << 20  # attention weights at once
_ATTENTION_ROWS = 64
_SQUARINGS = 10  # of a Gram matrix: its largest eigenvalue to 0.2 %, from above and below


def progress_rows(program: Program) -> int:
    """Inputs of an evaluation (each once more with a bit flipped)."""
    wanted = max(_FEWEST, min(_MOST, program.chunk * program.rows // _SHARE))
    return min(wanted, program.validation_rows)


def hidden_progress(
    program: Program,
    params: Any,
    key: UInt32[Array, "2"],
    target: TargetBits,
    pool: UInt8[Array, "n T_1"],
) -> Float[Array, "k"]:
    """All measures of `progress_names`, in their order; NaN for one that does not apply."""
    path = program.path
    bits = pool[: progress_rows(program), : path.spec.T]
    p = jnp.float32(0.5) if program.labelled else target.threshold.astype(jnp.float32) / 2.0**32
    relevant = _indicator(target, path.spec.T)
    found = {
        **_weights(path, params, key, relevant),
        **_answers(program, params, target, bits, relevant, p),
        **_attention(path, params, bits),
    }
    return jnp.stack([found.get(name, jnp.float32(jnp.nan)) for name in NAMES])


def _indicator(target: TargetBits, T: int) -> Float[Array, "T"]:
    """1 on the support, 0 elsewhere."""
    places = jnp.minimum(target.support, T - 1)  # labels of a file have a separate column
    return jnp.zeros(T, jnp.float32).at[places].max(target.relevant)


def _weights(path: Path, params: Any, key: Array, relevant: Array) -> dict[str, Array]:
    """The distance that the parameters, and the embeddings of positions, have moved."""
    first = path.init(jax.random.wrap_key_data(key, impl="threefry2x32"))
    moved = jax.tree.map(jnp.subtract, params, first)
    largest = [jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(moved) if leaf.size]
    found = {"weight_movement": jnp.max(jnp.stack(largest))}
    D = path.positions(moved)
    if D is None:
        return found
    lengths = jnp.sqrt(jnp.sum(D * D, axis=1))
    return found | {
        "position_largest": jnp.max(lengths),
        "position_typical": jnp.median(lengths),
        "position_relevant": jnp.max(lengths * relevant),
        "position_irrelevant": jnp.max(lengths * (1.0 - relevant)),
        "stable_rank": stable_rank(D),
    }


def stable_rank(D: Float[Array, "T d"]) -> Float[Array, ""]:
    """|D|_F^2 / |D|_2^2; 1 for a matrix of zeros.

    G has the eigenvalues l_1 >= l_2 >= ... of D^T D (or D D^T, the smaller), scaled to trace 1, and
    G^q those to the power q = 2^_SQUARINGS. l_1 is estimated by the mean of the l_i with weights
    l_i^q: never above l_1, and below it by a factor of at most 1 - log(n) / q or so.
    """
    G = _product(D.T, D) if D.shape[0] > D.shape[1] else _product(D, D.T)
    total = jnp.trace(G)
    G = jnp.where(total > 0, G / jnp.where(total > 0, total, 1.0), 0.0)

    def square(_: Array, power: Array) -> Array:
        power = _product(power, power)
        return power / jnp.maximum(jnp.trace(power), 1e-30)

    power = lax.fori_loop(0, _SQUARINGS, square, G)
    largest = jnp.sum(power * G)
    return jnp.where(total > 0, 1.0 / jnp.maximum(largest, 1e-30), 1.0)


def _answers(
    program: Program, params: Any, target: TargetBits, bits: Array, relevant: Array, p: Array
) -> dict[str, Array]:
    """Sensitivity by one flip per input, and Fourier coefficients, from the same outputs."""
    n, T = bits.shape
    flipped = np.arange(n) * T // n  # every position as often as the others
    hit = np.arange(T)[None, :] == flipped[:, None]  # [n, T]
    f = _network(program, params, jnp.concatenate([bits, bits ^ hit.astype(np.uint8)]))
    f, other = f[:n], f[n:]
    changed = p * (1.0 - p) * (f - other) ** 2
    each = hit / np.maximum(hit.sum(0), 1)  # a product takes the means: a GPU sums slowly by index
    influence = _product(changed[None, :], jnp.asarray(each, jnp.float32))[0]
    total = jnp.maximum(jnp.sum(influence), 1e-30)
    y = 2.0 * _labels(program, target, bits) - 1.0
    return {
        "variance": jnp.var(f),
        "sensitivity": T * jnp.mean(changed),
        "sensitivity_error": T * _error(changed),
        "influence_peak": jnp.max(influence) / total,
        "influence_share": jnp.sum(influence * relevant) / total,
        "target_coefficient": jnp.mean(f * y),
        "target_error": _error(f * y),
        **_neighbours(f, bits, target, relevant, p),
    }


def _neighbours(
    f: Array, bits: Array, target: TargetBits, relevant: Array, p: Array
) -> dict[str, Array]:
    """The largest coefficients on sets that differ from the support in one position."""
    n, T = bits.shape
    phi = (p - bits.astype(jnp.float32)) / jnp.sqrt(jnp.maximum(p * (1.0 - p), 1e-12))
    inside = phi[:, jnp.minimum(target.support, T - 1)]  # [n, s]
    used = target.relevant[None, :] > 0
    whole = jnp.prod(jnp.where(used, inside, 1.0), axis=1)
    s = inside.shape[1]
    without = [
        jnp.mean(f * jnp.prod(jnp.where(used & (jnp.arange(s) != i)[None, :], inside, 1.0), axis=1))
        for i in range(s)
    ]
    smaller = jnp.max(jnp.abs(jnp.stack(without)) * target.relevant)
    more = jnp.abs(_product((f * whole)[None, :], phi)[0]) / n
    return {
        "smaller_coefficient": smaller,
        "larger_coefficient": jnp.max(more * (1.0 - relevant)),
    }


def _network(program: Program, params: Any, bits: Array) -> Array:
    """f of every row, in blocks of one size; without a backward pass four times the rows of a step
    fit at once."""
    n, T = bits.shape
    num_blocks = -(-n // min(program.block_rows, 4 * (program.block or program.rows)))
    rows = -(-n // num_blocks)
    padded = jnp.pad(bits, ((0, num_blocks * rows - n), (0, 0))).reshape(num_blocks, rows, T)
    path = program.path

    def block(bits: Array) -> Array:
        inputs: Any = path.prepare(bits)
        return path.logits(params, inputs)

    z = lax.map(block, padded)
    return jnp.tanh(z.reshape(-1)[:n] / 2.0)


def _attention(path: Path, params: Any, bits: Array) -> dict[str, Array]:
    """Entropy and peak of the weights of the last layer's [CLS] query."""
    T, H = path.spec.T, getattr(path.spec, "heads", 1)
    rows = max(1, min(_ATTENTION_ROWS, len(bits), _ATTENTION // (T * H)))
    weights = path.weights(params, bits[:rows])  # [m, H, T + 1]
    if weights is None:
        return {}
    logs = jnp.log(jnp.maximum(weights, 1e-30))
    entropy = -jnp.sum(weights * logs, axis=2) / math.log(T + 1)
    return {
        "attention_entropy": jnp.mean(entropy),
        "attention_peak": jnp.max(jnp.mean(weights[:, :, :T], axis=0)),
    }


def _labels(program: Program, target: TargetBits, bits: Array) -> Array:
    if program.labelled:  # the target of a data file is unknown
        return jnp.full(len(bits), 0.5, jnp.float32)
    return labels(target, bits, program.path.spec.alphabet)


def _error(values: Float[Array, "n"]) -> Float[Array, ""]:
    """Standard error of a mean."""
    return jnp.std(values) / math.sqrt(len(values))


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
