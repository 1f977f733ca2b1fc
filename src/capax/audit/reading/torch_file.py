"""PyTorch `.bin`, `.pt`, `.pth`: the zip format, and the older one of five pickles (before 2020).

Both hold the storages as raw bytes, and a pickle that maps every tensor to a part of a storage. The
pickle is read by `torch_pickle`, never by Python's `pickle` or by `torch.load`.
"""

import io
import mmap
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from capax.audit.reading.stored import (
    LONGEST_HEADER,
    NUMBERS,
    StoredTensor,
    as_floats,
    bytes_at,
    check_within,
    checked_size,
)
from capax.audit.reading.torch_pickle import Machine, TensorView
from capax.errors import InputError, require

KINDS = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8", "BoolStorage": "bool",
}  # fmt: skip
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
DEEPEST = 4  # {"state_dict": {"model": {...}}} and the like
Places = dict[str, tuple[int, int]]  # storage key -> (offset, bytes)


def read_torch(path: Path) -> dict[str, StoredTensor]:
    """Tensors by name from a PyTorch file. Raises InputError for any other file; runs no code."""
    try:
        root, places = _read_zip(path) if zipfile.is_zipfile(path) else _read_legacy(path)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    tensors = {name: _stored(path, name, view, places) for name, view in _tensors(root)}
    require(tensors, str(path), "a table of tensors", "no tensors")
    return tensors


def _read_zip(path: Path) -> tuple[Any, Places]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise InputError(f"not a readable PyTorch file ({str(error)[:80]})") from None
    pickles = [name for name in entries if name.endswith("/data.pkl") or name == "data.pkl"]
    require(len(pickles) == 1, "archive", "one data.pkl", len(pickles))
    folder = pickles[0].removesuffix("data.pkl")
    spans = {name: _span(path, entry) for name, entry in entries.items()}
    if f"{folder}byteorder" in spans:
        order = bytes_at(path, *spans[f"{folder}byteorder"])[:10]
        require(order == b"little", "byteorder", "little", order)
    offset, size = spans[pickles[0]]
    require(size <= LONGEST_HEADER, "data.pkl", f"at most {LONGEST_HEADER} bytes", size)
    inside = f"{folder}data/"
    places = {
        name.removeprefix(inside): span for name, span in spans.items() if name.startswith(inside)
    }
    return Machine().run(io.BytesIO(bytes_at(path, offset, size))), places


def _span(path: Path, entry: zipfile.ZipInfo) -> tuple[int, int]:
    """Offset and size of an entry. PyTorch never compresses; compressed entries are refused."""
    plain = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
    require(
        plain,
        f"entry {entry.filename[:60]}",
        "an uncompressed entry, as PyTorch writes",
        "compressed",
    )
    local = bytes_at(path, entry.header_offset, 30, "entry")
    require(
        local[:4] == b"PK\x03\x04",
        "archive",
        "entries at the offsets in its directory",
        "other bytes",
    )
    names, extra = (int.from_bytes(local[i : i + 2], "little") for i in (26, 28))
    offset = entry.header_offset + 30 + names + extra
    check_within(path, offset, entry.file_size, entry.filename)
    return offset, entry.file_size


def _read_legacy(path: Path) -> tuple[Any, Places]:
    """Magic number, version, system, tensors, keys (five pickles); then length and numbers each."""
    require(path.stat().st_size > 0, "file", "a PyTorch file", "an empty one")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as source:
        first = Machine().run(source)
        require(first == LEGACY_MAGIC, "file", "a PyTorch file", "another kind of pickle")
        Machine().run(source)
        system = Machine().run(source)
        little = isinstance(system, dict) and system.get("little_endian") is True
        require(little, "byteorder", "little", "big or unknown")
        root = Machine().run(source)
        keys = Machine().run(source)
        require(isinstance(keys, list), "storages", "a list of keys", type(keys).__name__)
        sizes = {view.storage.key: _item(view.storage.kind) for _, view in _tensors(root)}
        places, at = {}, source.tell()
        for key in map(str, keys):
            require(key in sizes, "storage", "a key that some tensor uses", key[:40])
            num_bytes = int.from_bytes(source[at : at + 8], "little") * sizes[key]
            check_within(path, at + 8, num_bytes, f"storage {key[:40]}")
            places[key], at = (at + 8, num_bytes), at + 8 + num_bytes
    return root, places


def _item(kind: str) -> int:
    require(kind in KINDS, "storage", f"one of {', '.join(KINDS)}", kind)
    return NUMBERS[KINDS[kind]].itemsize


def _tensors(root: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, TensorView]]:
    """Tensors in nested tables, with dotted names; a wrapper around one table adds no name."""
    if not isinstance(root, dict) or depth > DEEPEST:
        return
    for key, value in root.items():
        if not isinstance(key, str):
            continue
        if isinstance(value, TensorView):
            yield prefix + key, value
        elif isinstance(value, dict):
            wrapper = key in ("state_dict", "model_state_dict", "model")
            yield from _tensors(value, prefix if wrapper else f"{prefix}{key}.", depth + 1)


def _stored(path: Path, name: str, view: TensorView, places: Places) -> StoredTensor:
    kind = view.kind if view.storage.kind == "UntypedStorage" else KINDS.get(view.storage.kind)
    require(kind in NUMBERS, name, f"numbers among {', '.join(NUMBERS)}", view.storage.kind)
    require(view.storage.key in places, f"{path}: {name}", "a storage in the file", "a missing one")
    start, num_bytes = places[view.storage.key]
    dtype = NUMBERS[str(kind)]
    count = checked_size(view.shape, name)
    last = view.offset + sum((n - 1) * s for n, s in zip(view.shape, view.stride, strict=True))
    inside = count == 0 or (
        (last + 1) * dtype.itemsize <= num_bytes and count <= last + 1 - view.offset
    )
    require(inside, f"{path}: {name}", "a view inside its storage", (view.shape, view.stride))
    return StoredTensor(
        view.shape, str(kind), count * dtype.itemsize, _loader(path, str(kind), view, start, last)
    )


def _loader(
    path: Path, kind: str, view: TensorView, start: int, last: int
) -> Callable[[], Shaped[np.ndarray, "..."]]:
    dtype, length = NUMBERS[kind], max(0, last + 1 - view.offset)

    def load() -> Shaped[np.ndarray, "..."]:
        offset = start + view.offset * dtype.itemsize
        raw = np.fromfile(path, dtype, length, offset=offset)
        require(raw.size == length, str(path), f"{length} numbers", raw.size)
        strides = tuple(s * dtype.itemsize for s in view.stride)
        seen = np.lib.stride_tricks.as_strided(raw, view.shape, strides, writeable=False)
        return as_floats(np.ascontiguousarray(seen), kind)

    return load
