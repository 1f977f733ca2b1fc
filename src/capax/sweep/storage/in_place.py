"""A store whose file is deleted, moved or replaced while it is written.

SQLite continues to write into a file without a name, and all content would be lost at the end. The
content of the open store is saved beside the old path first, or, if that folder is gone, in the
working folder or the system's folder for temporary files.
"""

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from capax.sweep.storage.file import StoreError


def file_number(path: Path) -> tuple[int, int] | None:
    """Device and inode, which identify a file among files of the same name; None if missing."""
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
