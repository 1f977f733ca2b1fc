"""The table of contents of a GGUF file: metadata, then name, shape, type and place of each tensor.

The reader of the `gguf` package decodes a vocabulary entry by entry (seconds for 49 152 words) and
does not check lengths. Here a length beyond the end of the file is an error, and long lists of
texts are skipped.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capax.audit.reading.stored import MOST_AXES, MOST_TENSORS
from capax.errors import InputError, require

SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
STRING, ARRAY = 8, 9
KEPT_ITEMS = 4096  # longer arrays are vocabularies, which only the tokenizer needs


@dataclass(frozen=True)
class GgufEntry:
    """One tensor: type number, offset after the header, shape as stored (innermost axis first)."""

    name: str
    kind: int
    offset: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Header:
    """Metadata by key (long arrays left out), tensors, and where the numbers begin."""

    metadata: dict[str, Any]
    entries: tuple[GgufEntry, ...]
    start: int


class _Cursor:
    def __init__(self, source: mmap.mmap) -> None:
        self.source, self.at = source, 0

    def number(self, letter: str) -> Any:
        (value,) = struct.unpack("<" + letter, self.bytes(struct.calcsize("<" + letter)))
        return value

    def bytes(self, count: int) -> bytes:
        end = self.skip(count)
        return self.source[end - count : end]

    def skip(self, count: int) -> int:
        if count > len(self.source) - self.at:
            raise InputError("truncated, or a length in its header is wrong")
        self.at += count
        return self.at

    def text(self) -> str:
        return self.bytes(self.number("Q")).decode("utf-8", errors="replace")


def read_header(path: Path) -> Header:
    """Parse the header of a GGUF file (version 2 or 3, little-endian)."""
    require(path.stat().st_size >= 24, str(path), "a GGUF file", "less than 24 bytes")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(_Cursor(data))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _parse(cursor: _Cursor) -> Header:
    require(cursor.bytes(4) == b"GGUF", "file", "a GGUF file", "another format")
    version = cursor.number("I")
    require(version in (2, 3), "GGUF version", "2 or 3, little-endian", version)
    num_tensors, num_keys = cursor.number("Q"), cursor.number("Q")
    require(num_tensors <= MOST_TENSORS, "header", f"at most {MOST_TENSORS} tensors", num_tensors)
    metadata: dict[str, Any] = {}
    for _ in range(num_keys):
        key = cursor.text()
        require(key not in metadata, "metadata", "every key once", key)
        metadata[key] = _value(cursor, cursor.number("I"))
    entries = tuple(_entry(cursor) for _ in range(num_tensors))
    alignment = metadata.get("general.alignment", 32)
    sound = type(alignment) is int and 0 < alignment <= 2**20
    require(sound, "general.alignment", "a whole number of bytes", alignment)
    return Header(metadata, entries, -(-cursor.at // alignment) * alignment)


def _value(cursor: _Cursor, kind: int) -> Any:
    if kind in SCALARS:
        return cursor.number(SCALARS[kind])
    if kind == STRING:
        return cursor.text()
    require(kind == ARRAY, "metadata", "a known type of value", kind)
    item, count = cursor.number("I"), cursor.number("Q")
    if item in SCALARS:
        size = struct.calcsize("<" + SCALARS[item])
        if count > KEPT_ITEMS:
            cursor.skip(count * size)
            return None
        return list(struct.unpack(f"<{count}{SCALARS[item]}", cursor.bytes(count * size)))
    require(item == STRING, "metadata", "an array of numbers or texts", item)
    if count <= KEPT_ITEMS:
        return [cursor.text() for _ in range(count)]
    source, at, length = cursor.source, cursor.at, struct.Struct("<Q").unpack_from
    end = len(source) - 8
    for _ in range(count):  # each step skips at least eight bytes, so the file size bounds the loop
        if at > end:
            break
        at += 8 + length(source, at)[0]
    cursor.skip(at - cursor.at)
    return None


def _entry(cursor: _Cursor) -> GgufEntry:
    name, axes = cursor.text(), cursor.number("I")
    require(axes <= MOST_AXES, name, f"at most {MOST_AXES} axes", axes)
    shape = tuple(cursor.number("Q") for _ in range(axes))
    return GgufEntry(name, cursor.number("I"), cursor.number("Q"), shape)
