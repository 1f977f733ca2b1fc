"""Reading files from unknown sources: size and depth are checked before the content.

A file may declare a terabyte, nest a million brackets, or contain an integer of a billion digits. A
name may lead to a pipe or to /dev/zero. Each reader here returns the content or raises a one-line
`InputError`, in bounded time and memory. No reader runs code, and every declared size is compared
with the file before it is used. Only regular files are opened.
"""

import datetime
import json
import math
import os
import stat
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from capax.errors import InputError, require
from capax.foreign import one_line

MAX_TOML = 2**20  # bytes
MAX_JSON = 16 * 2**20  # characters
MAX_DEPTH = 64
MAX_DIGITS = 300  # longer integers do not fit a float


def read_text(path: Path | str, limit: int = 64 * 2**20) -> str:
    """The UTF-8 text of a file of at most `limit` bytes."""
    content = read_limited(path, limit, "a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: wanted a text file (UTF-8), got other bytes") from None


def read_limited(path: Path | str, limit: int, what: str = "a file") -> bytes:
    """The bytes of a regular file of at most `limit` bytes, however large it says it is."""
    file = existing(path, what)
    check_size(file, limit)
    try:
        with opened_at_once(file) as opened:
            content = opened.read(limit + 1) or b""
    except OSError as error:
        raise InputError(f"{file}: could not be read ({error.strerror or error})") from None
    require(len(content) <= limit, str(file), f"at most {limit / 2**20:.0f} MiB", "more")
    return content


def opened_at_once(file: Path) -> IO[bytes]:
    """`file` for reading, without waiting: some regular files of /proc never end (EAGAIN then)."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(file, flags), "rb")


def existing(path: Path | str, what: str = "a file") -> Path:
    """`path`, if it is a regular file (or a link to one); `what` names the wanted file."""
    file, name = Path(path), one_line(str(path), 200)
    try:
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name}: file not found (wanted {what})") from None
    except (OSError, ValueError) as error:  # a name too long, or with a NUL in it
        raise InputError(f"{name}: cannot be opened ({error}); wanted {what}") from None
    require(not stat.S_ISDIR(found.st_mode), name, what, "a folder")
    require(stat.S_ISREG(found.st_mode), name, what, "a device, pipe or socket")
    require(found.st_size or _ends(file), name, what, "a file that never ends")
    return file


def _ends(file: Path) -> bool:
    """Whether a file that states no size has an end: readers of some files of /proc wait for ever.

    A file that cannot be opened counts as ending: the reader reports the reason.
    """
    with suppress(OSError), opened_at_once(file) as opened:
        for _ in range(256):
            part = opened.read(2**16)
            if not part:
                return part is not None
    return True


def existing_store(path: Path | str) -> Path:
    """`path`, if it is a file, or the reference of that name; its content is not checked."""
    file = Path(path)
    if file.is_file():
        return file
    if str(path) == file.name and not file.suffix:  # a plain word may name a reference
        for folder in reference_folders():
            named = folder / f"{file.name}.sqlite"
            if named.is_file():
                return named
    raise InputError(f"{file}: file not found (wanted a store made by `capax sweep`)")


def reference_folders() -> tuple[Path, Path]:
    """Folders of references: the package's and the user's."""
    from platformdirs import user_data_path

    shipped = Path(__file__).parent / "reference"
    with suppress(RuntimeError):  # the user has no home folder
        own = user_data_path("capax", appauthor=False) / "reference"
        return shipped, own if own.is_absolute() else shipped
    return shipped, shipped


def check_size(file: Path, limit: int) -> None:
    """Refuse a file larger than the limit of its kind."""
    size = file.stat().st_size
    wanted = f"at most {limit / 2**20:.0f} MiB"
    require(size <= limit, str(file), wanted, f"{size / 2**20:.0f} MiB")


def parse_json(text: str, what: str) -> Any:
    """The JSON value of `text`: at most 64 deep, every key once, no NaN, no huge integers."""
    require(len(text) <= MAX_JSON, what, f"at most {MAX_JSON} characters of JSON", len(text))
    check_depth(text, what)
    try:
        return json.loads(
            text, parse_int=_integer, parse_constant=_constant, object_pairs_hook=every_key_once
        )
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what}: not readable as JSON ({one_line(str(error))})") from None


def read_toml(path: Path | str) -> dict[str, Any]:
    """The tables of a TOML file: at most 64 deep, with finite numbers of 64 bits and no dates."""
    text = read_text(path, MAX_TOML)
    check_depth(text, str(path))
    try:
        fields = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = one_line(str(error), 200)
        raise InputError(f"{path}: not a readable TOML file ({reason})") from None
    check_plain(fields, f"{path}: ")
    return fields


def check_plain(tree: Any, where: str = "") -> None:
    """Refuse the first value that no setting can have, and name its path."""
    pending: list[tuple[str, Any, int]] = [("", tree, 0)]
    while pending:
        path, value, depth = pending.pop()
        name = where + one_line(path, 120)
        if isinstance(value, dict | list):
            require(depth <= MAX_DEPTH, name, f"at most {MAX_DEPTH} levels of tables", "more")
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            below = [(f"{path}.{key}".lstrip("."), part, depth + 1) for key, part in parts]
            pending += reversed(below)
        elif isinstance(value, datetime.date | datetime.time):
            raise InputError(f"{name}: wanted a number or a text, got a date or time ({value})")
        elif isinstance(value, float):
            require(math.isfinite(value), name, "a finite number", value)
        elif isinstance(value, int):
            require(-(2**63) <= value < 2**63, name, "a number of at most 64 bits", value)


def check_depth(text: str, what: str, limit: int = MAX_DEPTH) -> None:
    """Refuse text whose brackets nest deeper than `limit` (those inside strings count too)."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    require(deepest <= limit, what, f"at most {limit} levels of brackets", deepest)


def every_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, of which two readers may take different values."""
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {one_line(twice, 40)!r} occurs twice")
    return table


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
