"""Files appear whole or not at all: write beside the target, fsync, rename. Where caches live."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from capax.errors import InputError


def write_atomically(path: Path | str, write: Callable[[IO[bytes]], object]) -> Path:
    """Call `write` on a temporary file in the same folder, then rename it to `path`.

    If `write` raises, or the disk is full, `path` is left exactly as it was.
    """
    target = Path(path)
    check_writable(target)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"{target}: could not be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)
    return target


def check_writable(path: Path | str) -> None:
    """Fail early, before any work is done, when `path` could not be written later."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target}: wanted a file name, got a folder")
    if target.exists() and not target.is_file():
        # Renaming onto it would replace /dev/null itself, for everybody on the machine.
        raise InputError(f"{target}: wanted a file name, got a device or a pipe")
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist")


def cache_folder() -> Path:
    """Where Capax keeps what can be made again: `$CAPAX_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("CAPAX_CACHE")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("capax", appauthor=False)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
