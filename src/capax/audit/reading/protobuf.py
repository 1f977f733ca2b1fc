"""The part of the protocol-buffer wire format that is needed to read an ONNX file.

A message is a sequence of fields: a number (field << 3 | type), then a varint, 8 bytes, 4 bytes, or
a length and that many bytes. Only offsets are kept; a field is copied when it is needed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from capax.errors import InputError

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5


@dataclass(frozen=True)
class Field:
    """Field number, and the value of a varint or the byte range of any other field."""

    number: int
    value: int = 0
    start: int = 0
    end: int = 0


def fields(data: memoryview | bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in data[start:end]; InputError where it is malformed."""
    at = start
    while at < end:
        tag, at = _varint(data, at, end)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(data, at, end)
            yield Field(number, value=value)
            continue
        if kind == BYTES:
            length, at = _varint(data, at, end)
        elif kind in (EIGHT, FOUR):
            length = 8 if kind == EIGHT else 4
        else:
            raise InputError("not a readable ONNX file (a field of unknown type)")
        if length > end - at:
            raise InputError("not a readable ONNX file (truncated, or a length is wrong)")
        yield Field(number, start=at, end=at + length)
        at += length


def varints(data: memoryview | bytes, start: int, end: int) -> Iterator[int]:
    """A packed list of varints."""
    while start < end:
        value, start = _varint(data, start, end)
        yield value


def _varint(data: memoryview | bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise InputError("not a readable ONNX file (truncated, or a number is too long)")
