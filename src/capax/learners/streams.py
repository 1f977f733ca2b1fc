"""The standard streams of this process, restored if a learner's file closes them.

A file of the user is loaded, and its factory called once, in this process. If its code closes every
file descriptor (as daemons do), Capax could not print a message without this file.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from capax.errors import InputError

_OUT_OF_THE_WAY = (
    700  # descriptor of the first copy: code that closes descriptors seldom reaches it
)


@contextmanager
def streams_kept(name: str) -> Iterator[None]:
    """Restore streams that the block closed, and raise an `InputError` that names the learner."""
    copies = {number: copy for number in (0, 1, 2) if (copy := _copied(number)) is not None}
    try:
        yield
    finally:
        closed = [number for number in copies if not _is_open(number)]
        for number in closed:
            with suppress(OSError):  # the copy is closed too: the stream cannot be restored
                os.dup2(copies[number], number)
        for copy in copies.values():
            with suppress(OSError):
                os.close(copy)
    if closed:
        raise InputError(f"learner: {name} closes the standard streams while it is loaded or built")


def _copied(number: int) -> int | None:
    import fcntl

    for lowest in (_OUT_OF_THE_WAY, 0):
        with suppress(OSError):
            return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, lowest)
    return None


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
