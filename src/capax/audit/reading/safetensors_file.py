"""safetensors: eight bytes of length, a JSON table of contents, then the numbers.

Read here rather than through the `safetensors` package, because it gives NumPy no bfloat16.
"""

import json
from pathlib import Path
from typing import Any

from capax.audit.reading.stored import (
    LONGEST_HEADER,
    StoredTensor,
    bytes_at,
    check_number,
    stored,
)
from capax.errors import InputError, require
from capax.foreign import one_line
from capax.reading import every_key_once

KINDS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64",
    "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


def read_safetensors(path: Path) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Tensors by name, and the file's own metadata (texts)."""
    length = int.from_bytes(bytes_at(path, 0, 8, "header length"), "little")
    require(2 <= length <= LONGEST_HEADER, str(path), "a safetensors file", "another format")
    header = parse_json(bytes_at(path, 8, length, "header"), path)
    metadata = header.pop("__metadata__", {})
    require(isinstance(metadata, dict), f"{path}: __metadata__", "a JSON object", metadata)
    check_number(len(header), path)
    tensors = {name: _entry(path, name, header[name], 8 + length) for name in header}
    _check_places(path, header, path.stat().st_size - 8 - length)
    return tensors, metadata


def _check_places(path: Path, header: dict[str, Any], size: int) -> None:
    """Raise InputError unless every byte after the header belongs to exactly one tensor."""
    end = 0
    for begin, last, name in sorted((*header[name]["data_offsets"], name) for name in header):
        where = f"{path}: {name[:80]!r}"
        require(
            begin >= end,
            where,
            f"bytes from {end} on (earlier bytes belong to another tensor)",
            begin,
        )
        require(begin == end, where, f"bytes from {end} on (no gap between tensors)", begin)
        end = last
    require(end == size, str(path), f"tensors that fill its {size} bytes", f"{end} bytes filled")


def parse_json(text: bytes, path: Path) -> dict[str, Any]:
    """A JSON object; raises a one-line InputError for anything else."""
    try:
        value = json.loads(text, object_pairs_hook=every_key_once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({one_line(str(error))})") from None
    require(isinstance(value, dict), str(path), "a JSON object", type(value).__name__)
    return value


def _entry(path: Path, name: str, entry: Any, start: int) -> StoredTensor:
    try:
        kind, shape = KINDS.get(entry["dtype"], str(entry["dtype"])), tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if not all(type(n) is int for n in (*shape, begin, end)):
            raise TypeError
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: the entry of {name[:80]!r} is malformed") from None
    tensor = stored(path, kind, shape, start + begin, name)
    require(
        end - begin == tensor.num_bytes, f"{path}: {name}", f"{tensor.num_bytes} bytes", end - begin
    )
    return tensor
