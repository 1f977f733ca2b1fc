"""Small random Transformers with a truth table, and their logits on all inputs in float64."""

import functools
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from naive_head import all_inputs

from capax.attention import save, transformer_spec
from capax.attention.transformer import Transformer
from capax.boolean import SparseFunction
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.table_forward import TableForward

T = 5


def logits(model: Transformer) -> np.ndarray:
    """Of all 2^T inputs, float64 on the stored weights."""
    return TableForward(one_query_layer(model)).numbers(all_inputs(T))


def made(seed: int, activation: str = "gelu", free: int = 1) -> tuple[Transformer, SparseFunction]:
    """A network whose sign depends on the first T - free bits only, and that function."""
    spec = transformer_spec(T=T, d=6, heads=2, mlp_width=7, activation=activation, init_scale=0.7)
    model = Transformer.init(spec, key=jax.random.key(seed))
    leaves = {"b_Q": 1.0, "b_V": 0.3, "b_O": 0.2, "b_in": 0.5, "b_out": 0.4}
    keys = jax.random.split(jax.random.key(seed + 1000), len(leaves))
    for (name, size), key in zip(leaves.items(), keys, strict=True):
        where = functools.partial(_block_part, name=name)
        old = where(model)
        model = eqx.tree_at(where, model, size * jax.random.normal(key, old.shape, jnp.float32))
    numbers = np.sort(logits(model))
    for cut in np.argsort(-np.diff(numbers)):  # the widest gap with a table on the first bits
        b = np.float32(-(numbers[cut] + numbers[cut + 1]) / 2)
        moved = eqx.tree_at(lambda m: m.b, model, jnp.asarray(b))
        signs = logits(moved) > 0
        table = signs.reshape(1 << free, -1) if free else signs[None]
        if (table == table[0]).all():
            return moved, SparseFunction(tuple(range(T - free)), table[0].astype(float), T)
    raise AssertionError("no such function")


def _block_part(model: Transformer, name: str):
    return getattr(model.blocks[0], name)


def saved(folder: Path, seed: int, activation: str = "gelu", free: int = 1):
    """(path, function) of a network on disk."""
    model, f = made(seed, activation, free)
    return save(folder / f"{activation}-{seed}-{free}.safetensors", model), f


def margins(model: Transformer, f: SparseFunction) -> np.ndarray:
    """sign * logit on all inputs: positive where the network decides as f."""
    sign = np.where(f(all_inputs(T)) > 0.5, 1.0, -1.0)
    return sign * logits(model)
