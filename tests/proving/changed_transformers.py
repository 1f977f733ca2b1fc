"""Changed proofs of small trained networks, and whether their statement is true."""

import hashlib
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
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
    at = int(rng.integers(1, len(lines)))
    other = int(rng.integers(1, len(lines)))
    if how == "digit":
        places = [i for i, c in enumerate(text) if c.isdigit()]
        place = places[int(rng.integers(len(places)))]
        return text[:place] + str(rng.integers(10)) + text[place + 1 :]
    if how == "drop":
        del lines[at]
    elif how == "twice":
        lines.insert(at, lines[at])
    elif how == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    elif how == "cut":
        return text[: int(rng.integers(len(text)))]
    else:  # hints of another leaf, or two hints exchanged
        line = json.loads(lines[at])
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
