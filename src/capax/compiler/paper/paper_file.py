"""The networks of `--method paper` in safetensors files.

Arrays: `positions` [T, d] (left out if they are unit vectors), `heads.h.W_Q` and so on for every
head, and `W_1`, `W_2`, `w` of the ReLU network, all in float64. The header holds the fields that
are not in the arrays (encoding, support, and whether the heads give a vector or a mean) and the
certificate.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save as to_safetensors

from capax.attention import checkpoint
from capax.attention.numpy_block import BlockMatrices
from capax.compiler.paper.bump_network import BumpNetwork
from capax.compiler.paper.paper_heads import PaperHeads, paper_heads
from capax.compiler.paper.paper_method import MAX_S, MAX_T, PaperCompiled
from capax.compiler.parts.selection import ENCODINGS
from capax.compiler.weights_file import CONTENTS, PAPER, read_parts
from capax.errors import InputError, require
from capax.files import check_writable, write_atomically
from capax.identity import canonical_json

MATRICES = ("W_Q", "W_K", "W_V", "W_C")


class PaperFile(NamedTuple):
    """The content of a file: heads and network of the stored arrays, claims, unchanged or not.

    `lemma`: the heads of the lemma at the same positions, which give norms and g.
    """

    heads: PaperHeads
    network: BumpNetwork
    lemma: PaperHeads
    claims: dict[str, Any]
    intact: bool


def save_paper(path: Path | str, made: PaperCompiled) -> Path:
    """Write the network and its certificate to `path`, whole or not at all."""
    check_writable(path)
    heads, network = made.heads, made.network
    arrays = {f"heads.{h}.{n}": getattr(W, n) for h, W in enumerate(heads.heads) for n in MATRICES}
    arrays |= {name: getattr(network, name) for name in ("W_1", "W_2", "w")}
    if not np.array_equal(heads.positions, _unit_positions(heads.T, heads.encoding)):
        arrays["positions"] = heads.positions
    arrays = {name: np.ascontiguousarray(M, np.float64) for name, M in arrays.items()}
    structure = {
        "kind": CONTENTS[PAPER], "T": heads.T, "encoding": heads.encoding,
        "support": list(heads.support), "vector": heads.vector, "gamma": heads.gamma,
    }  # fmt: skip
    metadata = {"kind": PAPER, "certificate": made.certificate.to_json()}
    text = canonical_json({"module": structure, "metadata": metadata})
    header = {"format": checkpoint.FORMAT, "capax": text}
    header["sha256"] = checkpoint.fingerprint(text, arrays)
    content = to_safetensors(arrays, metadata=header)
    return write_atomically(path, lambda file: file.write(content))


def load_paper(path: Path | str) -> PaperFile:
    """Read a network of the paper. Raises `InputError` for parts that do not fit together."""
    structure, claims, arrays = read_parts(path, PAPER)
    try:
        lemma = _lemma(structure, arrays.pop("positions", None))
        heads = _heads(lemma, arrays)
        network = _network(lemma, arrays)
        require(not arrays, ", ".join(sorted(arrays)), "only arrays of the network", "extra arrays")
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return PaperFile(heads, network, lemma, claims, checkpoint.is_intact(path))


def _unit_positions(T: int, encoding: str) -> np.ndarray:
    return np.eye(T, T + (1 if encoding == "bag" else 3))


def _lemma(structure: dict[str, Any], positions: np.ndarray | None) -> PaperHeads:
    """The lemma's heads for the structure in the header."""
    names = ("T", "encoding", "support", "vector", "gamma")
    read: list[Any] = [structure.get(name) for name in names]
    T, encoding, support, vector, gamma = read
    require(encoding in ENCODINGS, "encoding", f"one of {', '.join(ENCODINGS)}", encoding)
    require(_whole(T) and 1 <= T <= MAX_T, "T", f"an integer in 1..{MAX_T}", T)
    listed = isinstance(support, list) and all(_whole(t) and 0 <= t < T for t in support)
    distinct = listed and 1 <= len(support) == len(set(support)) <= MAX_S
    require(distinct, "support", f"1 to {MAX_S} different positions below T", support)
    require(isinstance(vector, bool), "vector", "true or false", vector)
    require(isinstance(gamma, float), "gamma", "a number", gamma)
    choice: Any = {"encoding": encoding, "vector": vector, "gamma": gamma}
    codes = None
    if positions is not None and encoding != "trainable":
        extra = 1 if encoding == "bag" else 3
        _check(positions, "positions", (T, None))
        fits = positions.shape[1] > extra and not positions[:, -extra:].any()
        require(fits, "positions", f"{extra} columns of zeros at the end", positions.shape)
        codes = positions[:, :-extra]
        length = np.linalg.norm(codes, axis=1)
        require(np.abs(length - 1).max() < 1e-9, "positions", "vectors of length 1", length.max())
    made = paper_heads(T, tuple(support), codes=codes, **choice)
    if positions is None or encoding != "trainable":
        return made
    _check(positions, "positions", made.positions.shape)
    return replace(made, positions=positions)


def _heads(lemma: PaperHeads, arrays: dict[str, np.ndarray]) -> PaperHeads:
    made = []
    for h, wanted in enumerate(lemma.heads):
        parts = []
        for name in MATRICES:
            path = f"heads.{h}.{name}"
            parts.append(_take(arrays, path, getattr(wanted, name).shape))
        made.append(BlockMatrices(*parts))
    return replace(lemma, heads=tuple(made))


def _network(lemma: PaperHeads, arrays: dict[str, np.ndarray]) -> BumpNetwork:
    p = lemma.wanted.shape[1]
    W_1 = _take(arrays, "W_1", (p + 1, None))
    W_2 = _take(arrays, "W_2", (W_1.shape[1] + 1, None))
    return BumpNetwork(W_1, W_2, _take(arrays, "w", (W_2.shape[1],)), {})


def _take(arrays: dict[str, np.ndarray], name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    require(name in arrays, name, "an array of the network", "no such array")
    return _check(arrays.pop(name), name, shape)


def _check(M: np.ndarray, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    shown = ", ".join("any" if n is None else str(n) for n in shape)
    fits = M.ndim == len(shape) and all(
        n in (None, size) for n, size in zip(shape, M.shape, strict=True)
    )
    require(fits and min(M.shape) > 0, name, f"shape ({shown})", M.shape)
    require(M.dtype == np.float64, name, "float64 numbers", str(M.dtype))
    require(bool(np.isfinite(M).all()), name, "finite weights", "NaN or infinity")
    return M


def _whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)
