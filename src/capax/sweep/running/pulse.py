"""Whether the head of a Ray cluster is alive.

A cluster without its head continues for about a minute. Then Ray ends every connected process, this
one too, with exit code 1. Capax notices earlier and ends with a message.
"""

import atexit
import socket
import time
from typing import Any

from capax.errors import InfeasibleError

EVERY, PATIENCE = 5.0, 12.0  # seconds between checks, and without the head before an error
_CONNECT = 2.0


class Pulse:
    """The head of the cluster that `ray` is connected to."""

    def __init__(self, ray: Any) -> None:
        address = getattr(ray.get_runtime_context(), "gcs_address", None)
        host, _, port = (address or "").rpartition(":")
        self._ray, self._place = ray, (host.strip("[]"), int(port or 0))
        self._next, self._last = 0.0, time.monotonic()

    def check(self) -> None:
        """Raise `InfeasibleError` if the head's address has not answered for a while."""
        now = time.monotonic()
        if now < self._next or not self._place[1]:  # `ray://` has no such address
            return
        self._next = now + EVERY
        try:
            with socket.create_connection(self._place, timeout=_CONNECT):
                self._last = time.monotonic()
        except OSError:
            if now - self._last > PATIENCE:
                atexit.unregister(self._ray.shutdown)  # it would wait for the head
                raise InfeasibleError(gone("its head is down")) from None


def gone(why: str) -> str:
    """The message for a lost cluster."""
    return (f"--on ray: the cluster does not answer ({why}); finished trials are in the store, "
            "start it and run the same command again")  # fmt: skip
