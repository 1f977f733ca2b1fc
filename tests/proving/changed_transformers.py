"""Changed proofs of small trained networks, and whether their statement is true."""

import hashlib
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from changed_proofs import plainly_changed
from small_transformers import T, margins

from capax.attention import load, save
from capax.attention.transformer import assemble, parameters
from capax.boolean import SparseFunction

NETWORKS = (("gelu", 6), ("gelu", 7), ("relu", 2), ("identity", 8))


def is_true(text: str, path) -> bool:
    """The statement of the first line, on all 2^T inputs."""
    header = json.loads(text.splitlines()[0])
    s = len(header["support"])
    table = np.array([int(header["table"], 16) >> r & 1 for r in range(1 << s)], float)
    f = SparseFunction(tuple(header["support"]), table, T)
    return bool(margins(load(path)[0], f).min() >= float(header["margin"]) - 1e-9)


def changed(text: str, how: str, rng: np.random.Generator) -> str:
    lines = text.splitlines()
    at, other = (int(i) for i in rng.integers(1, len(lines), size=2))
    plain = plainly_changed(text, how, at, rng)
    if plain is not None:
        return plain
    line = json.loads(lines[at])  # hints of another leaf, or two hints exchanged
    name = list(line)[int(rng.integers(len(line)))]
    if how == "other hints":
        line[name] = json.loads(lines[other]).get(name, line[name])
    elif isinstance(line[name], list):
        i, j = rng.integers(len(line[name]), size=2)
        line[name][i], line[name][j] = line[name][j], line[name][i]
    lines[at] = json.dumps(line)
    return "\n".join(lines) + "\n"


HOW = ("digit", "drop", "twice", "swap", "cut", "other hints", "two hints")


def forged(path: Path, text: str, rng: np.random.Generator, size: float) -> tuple[Path, str]:
    """One weight moved, and the hash in the proof made to fit."""
    model = load(path)[0]
    arrays = {name: np.array(array) for name, array in parameters(model).items()}
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    where = tuple(int(rng.integers(n)) for n in arrays[name].shape)
    arrays[name][where] += np.float32(size * rng.standard_normal())
    target = save(path.with_suffix(".forged"), assemble(model.spec, _jax(arrays)))
    old = json.loads(text.splitlines()[0])["weights"]
    return target, text.replace(old, hashlib.sha256(target.read_bytes()).hexdigest())


def _jax(arrays):
    return {name: jnp.asarray(array) for name, array in arrays.items()}
