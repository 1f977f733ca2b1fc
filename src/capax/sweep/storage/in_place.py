"""A store whose file is deleted, moved or replaced while it is written.

SQLite goes on writing into a file that has lost its name, and everything would be gone at the end.
All that the open store holds is saved beside the old place first, or in the working folder or the
system's folder for temporary files where that place is gone.
"""

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from capax.sweep.storage.file import StoreError


def file_number(path: Path) -> tuple[int, int] | None:
    """Device and inode, which tell a file from a later one of the same name; None if missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def lost(path: Path, connection: sqlite3.Connection) -> StoreError:
    """The error to raise, after the content of the store was saved to another file."""
    happened = f"{path}: deleted, moved or replaced while it was written"
    for folder in (path.parent, Path.cwd(), Path(tempfile.gettempdir())):
        saved = folder / f"{path.stem}-rescued-{os.getpid()}.sqlite"
        with suppress(sqlite3.Error), closing(sqlite3.connect(saved)) as copy:
            connection.backup(copy)
            return StoreError(
                f"{happened}; every finished trial is in {saved}: move it back and run the same "
                "command again"
            )
    return StoreError(f"{happened}; no copy of it could be saved")
