"""A tensor that is read from disk only when it is used, and the checkpoint it belongs to.

A reader parses only the table of contents of a file and checks every entry against the size of the
file. Numbers are read one tensor at a time, so memory holds one layer, however large the file is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from capax.errors import InputError, require

# Tables of contents are read into memory; a longer one is damaged or hostile.
LONGEST_HEADER = 100 * 10**6  # bytes; the limit of the safetensors package
MOST_TENSORS = 2**17
MOST_AXES = 8
# bfloat16 is the upper half of a float32; NumPy has no such type, so its bits are read as uint16.
BFLOAT16 = "bfloat16"
NUMBERS = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    BFLOAT16: np.dtype("<u2"),
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "int16": np.dtype("<i2"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "bool": np.dtype("?"),
}


@dataclass(frozen=True)
class StoredTensor:
    """Shape and number format of a tensor, and the function that reads its numbers."""

    shape: tuple[int, ...]
    kind: str
    num_bytes: int
    load: Callable[[], Shaped[np.ndarray, "..."]]


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and their configuration, from the file or the `config.json` beside it.

    config: keys as in `config.json`. origin: a description of where they come from.
    """

    path: Path
    format: str
    tensors: Mapping[str, StoredTensor]
    config: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""


def as_floats(raw: Shaped[np.ndarray, "..."], kind: str) -> Shaped[np.ndarray, "..."]:
    """Numbers as float32; as float64 if the file stores float64."""
    if kind == BFLOAT16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float64 if kind == "float64" else np.float32, copy=False)


def stored(path: Path, kind: str, shape: tuple[int, ...], offset: int, name: str) -> StoredTensor:
    """A tensor of plain numbers at `offset` bytes into a file; checked against the file's size."""
    require(kind in NUMBERS, name, f"a number format among {', '.join(NUMBERS)}", kind)
    count = checked_size(shape, name)
    num_bytes = count * NUMBERS[kind].itemsize
    check_within(path, offset, num_bytes, name)

    def load() -> Shaped[np.ndarray, "..."]:
        raw = np.fromfile(path, NUMBERS[kind], count, offset=offset)
        require(raw.size == count, f"{path}: {name}", f"{count} numbers", raw.size)
        return as_floats(raw, kind).reshape(shape)

    return StoredTensor(shape, kind, num_bytes, load)


def checked_size(shape: tuple[int, ...], name: str) -> int:
    """The number of entries of a shape; raises InputError if it is not a valid shape."""
    whole = all(type(n) is int and 0 <= n < 2**48 for n in shape) and len(shape) <= MOST_AXES
    require(whole, name, f"a shape of at most {MOST_AXES} axes", shape)
    count = 1
    for n in shape:
        count *= n
    require(count < 2**48, name, "fewer than 2^48 entries", shape)
    return count


def check_number(count: int, path: Path) -> None:
    """Refuse a table of contents with more tensors than any model has."""
    require(count <= MOST_TENSORS, str(path), f"at most {MOST_TENSORS} tensors", count)


def check_within(path: Path, offset: int, num_bytes: int, name: str) -> None:
    """Raise InputError unless the bytes lie inside the file."""
    size = path.stat().st_size
    if offset < 0 or num_bytes < 0 or offset + num_bytes > size:
        raise InputError(
            f"{path}: {name[:80]!r} should end at byte {offset + num_bytes}, "
            f"the file has {size}: truncated, or its table of contents is wrong"
        )


def bytes_at(path: Path, offset: int, count: int, name: str = "bytes") -> bytes:
    """Exactly `count` bytes of a file."""
    check_within(path, offset, count, name)
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(count)
