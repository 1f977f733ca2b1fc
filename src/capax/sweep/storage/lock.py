"""One writer per store: an advisory lock beside the file, released by the system at exit."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from capax.errors import InputError


class Lock:
    """Holds `<store>.lock` until `release`. Raises `InputError` when another process holds it."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + ".lock")
        self._handle = self._acquire(store)

    def _acquire(self, store: Path) -> int:
        while True:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
                os.close(handle)
                raise InputError(
                    f"{store}: another process (pid {owner}) is writing this store; "
                    "wait for it or choose another --store"
                ) from None
            if self._still_there(handle):
                with suppress(
                    OSError
                ):  # a full disk: the lock holds, only the process number is missing
                    os.truncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                return handle
            os.close(handle)  # its owner removed the file between our open and our lock

    def _still_there(self, handle: int) -> bool:
        try:
            return os.fstat(handle).st_ino == self._path.stat().st_ino
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock. May be called twice."""
        if self._handle >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1
