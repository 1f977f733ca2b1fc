"""GGUF: the header is read here; the `gguf` package dequantises blocks, with NumPy alone."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from capax.audit.reading.gguf_header import GgufEntry, read_header
from capax.audit.reading.stored import StoredTensor, check_within, checked_size, stored
from capax.errors import InputError, require

PLAIN = {0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64",
         28: "float64", 30: "bfloat16"}  # fmt: skip


def read_gguf(path: Path) -> tuple[dict[str, StoredTensor], dict[str, Any]]:
    """Tensors by name, in PyTorch's order [out, in], and the metadata."""
    header = read_header(path)
    tensors = {entry.name: _tensor(path, entry, header.start) for entry in header.entries}
    require(len(tensors) == len(header.entries), str(path), "every tensor once", "a name twice")
    return tensors, header.metadata


def _tensor(path: Path, entry: GgufEntry, start: int) -> StoredTensor:
    shape = tuple(reversed(entry.shape))
    if entry.kind in PLAIN:
        return stored(path, PLAIN[entry.kind], shape, start + entry.offset, entry.name)
    return _quantised(path, entry, shape, start + entry.offset)


def _quantised(path: Path, entry: GgufEntry, shape: tuple[int, ...], offset: int) -> StoredTensor:
    constants, quants = _package()
    try:
        kind = constants.GGMLQuantizationType(entry.kind)
        block, size = constants.GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise InputError(f"{path}: {entry.name[:80]!r} has the unknown type {entry.kind}") from None
    count = checked_size(shape, entry.name)
    require(shape and shape[-1] % block == 0, entry.name, f"rows of whole blocks of {block}", shape)
    num_bytes = count // block * size
    check_within(path, offset, num_bytes, entry.name)

    def load() -> Shaped[np.ndarray, "..."]:
        raw = np.fromfile(path, np.uint8, num_bytes, offset=offset)
        require(raw.size == num_bytes, f"{path}: {entry.name}", f"{num_bytes} bytes", raw.size)
        rows = raw.reshape(*shape[:-1], shape[-1] // block * size)
        try:
            return quants.dequantize(rows, kind).astype(np.float32, copy=False)
        except NotImplementedError:
            raise InputError(
                f"{path}: gguf cannot dequantise {kind.name} of {entry.name!r}"
            ) from None

    return StoredTensor(shape, kind.name, num_bytes, load)


def _package() -> tuple[Any, Any]:
    try:
        from gguf import constants, quants
    except ImportError:
        raise InputError(
            "quantised GGUF files need the package gguf: pip install 'capax[audit]'"
        ) from None
    return constants, quants
