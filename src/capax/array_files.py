"""Arrays in files of unknown origin: .npy, .npz and safetensors.

A header may declare a terabyte, or name a type that runs code. Its numbers are compared with the
size of the file before the content is read; nothing is unpickled.
"""

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from capax.errors import InputError, require
from capax.foreign import one_line
from capax.machine import check_memory
from capax.reading import existing

MAX_ARRAY = 2**31  # bytes of one array that a data file may hold


def load_npy(path: Path | str) -> np.ndarray:
    """The numbers of a .npy file whose header says no more than the file holds."""
    file = existing(path, "a .npy table of numbers")
    size = file.stat().st_size
    with file.open("rb") as opened:
        return _array(opened, size, str(file))


def load_npz(path: Path | str, names: Iterable[str]) -> dict[str, np.ndarray]:
    """The arrays `names` of an .npz file, as far as it has them; other members are not read."""
    file = existing(path, "an .npz file")
    wanted, found = {f"{name}.npy": name for name in names}, {}
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if member.filename in wanted:
                    name = wanted[member.filename]
                    with archive.open(member) as opened:
                        found[name] = _array(opened, member.file_size, f"{file}: {name}")
    except InputError:
        raise
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError,
            ValueError) as error:  # fmt: skip
        reason = one_line(str(error) or type(error).__name__)
        raise InputError(f"{file}: not a readable .npz file ({reason})") from None
    return found


def _array(opened: Any, size: int, where: str) -> np.ndarray:
    """One array in NumPy's format, of `size` bytes in the file system or archive."""
    require(size <= MAX_ARRAY, where, f"at most {MAX_ARRAY >> 20} MiB", f"{size >> 20} MiB")
    try:
        version = npy.read_magic(opened)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(opened)
    except Exception as error:  # the header is a Python literal: every error in it is a bad header
        reason = one_line(str(error) or type(error).__name__)
        raise InputError(f"{where}: not an array in NumPy's format ({reason})") from None
    plain = dtype.kind in "biufU" and not dtype.hasobject
    require(plain, where, "numbers", f"an array of {one_line(str(dtype), 40)}")
    require(min(shape, default=0) >= 0, where, "lengths >= 0 in its header", shape)
    count = math.prod(shape)
    needed = count * dtype.itemsize
    require(needed <= size, where, f"the {needed} bytes its header declares", f"{size} bytes")
    check_memory(3 * needed, f"{where}: its numbers")
    content = opened.read(needed)
    require(len(content) == needed, where, f"{needed} bytes of numbers", f"{len(content)} bytes")
    flat = np.frombuffer(content, dtype=dtype, count=count)
    return flat.reshape(shape, order="F" if fortran else "C").copy()


def read_safetensors(
    path: Path | str, what: str = "a safetensors file"
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a safetensors file that fits into memory."""
    file = existing(path, what)
    check_memory(4 * file.stat().st_size, f"{one_line(str(path), 200)}: its arrays")
    with _safetensors(file, what) as opened:
        return opened.metadata() or {}, {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


def safetensors_metadata(path: Path | str, what: str = "a safetensors file") -> dict[str, str]:
    """The metadata alone; no array is read."""
    with _safetensors(existing(path, what), what) as opened:
        return opened.metadata() or {}


@contextmanager
def _safetensors(file: Path, what: str) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="np") as opened:
            yield opened
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        # a dtype that NumPy does not have is a TypeError or an AttributeError, by version
        reason = one_line(str(error) or type(error).__name__, 120)
        raise InputError(f"{file}: not readable as {what} ({reason})") from None
