"""Files that appear whole or not at all, and the folder of caches.

On Linux a file has no name while it is written, so the system removes it if the process dies. Where
a file system cannot do that, the file is a hidden one beside the target until it is complete.
"""

import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from capax.errors import InputError


def write_atomically(path: Path | str, write: Callable[[IO[bytes]], object]) -> Path:
    """Call `write` on a new file in the folder of `path`, then make it `path`.

    If `write` raises, the disk is full, or the process dies, `path` is left exactly as it was.
    """
    target = Path(path)
    check_writable(target)
    hidden: list[Path] = []  # names that must not stay
    try:
        with _new_file(target, hidden) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            _name_it(file.fileno(), target, hidden)
    except OSError as error:
        raise InputError(f"{target}: could not be written ({error.strerror or error})") from error
    finally:
        for name in hidden:
            name.unlink(missing_ok=True)
    return target


def _new_file(target: Path, hidden: list[Path]) -> IO[bytes]:
    """A new file in the folder of `target`, without a name; else its name is added to `hidden`."""
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir():
        with suppress(OSError):  # not on every file system
            return os.fdopen(os.open(target.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".capax-")
    hidden.append(Path(name))
    os.fchmod(handle, 0o666 & ~_umask())
    return os.fdopen(handle, "wb")


def _name_it(handle: int, target: Path, hidden: list[Path]) -> None:
    """Give the open file the name `target`; a file of that name is replaced."""
    if not hidden:
        try:
            _link(handle, target)
            return
        except FileExistsError:  # linking cannot replace a file, renaming can
            hidden.append(target.with_name(f".capax-{secrets.token_hex(8)}"))
            _link(handle, hidden[0])
    hidden[0].replace(target)


def _link(handle: int, path: Path) -> None:
    """Give an open file without a name its first one (see open(2), O_TMPFILE)."""
    os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)


def check_writable(path: Path | str) -> None:
    """Raise `InputError` before any work is done if `path` cannot be written."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: wanted a file name, got a folder")
    if target.exists() and not target.is_file():
        # Renaming onto it would replace /dev/null itself, for everybody on the machine.
        raise InputError(f"{target}: wanted a file name, got a device or a pipe")
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist")
    effective = os.access in os.supports_effective_ids
    if not os.access(target.parent, os.W_OK | os.X_OK, effective_ids=effective):
        raise InputError(f"{target}: the folder {target.parent} cannot be written to")


def cache_folder() -> Path:
    """The folder of files that can be made again: `$CAPAX_CACHE`, or the user's cache folder.

    Raises `InputError` for a user without a home folder.
    """
    chosen = os.environ.get("CAPAX_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    with suppress(RuntimeError):  # older versions give a folder called `~` instead
        folder = user_cache_path("capax", appauthor=False)
        if folder.is_absolute():
            return folder
    raise InputError("cache: you have no home folder; set CAPAX_CACHE to a folder")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
