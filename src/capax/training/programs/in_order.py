"""One at a time, in the order of their numbers."""

import heapq
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class InOrder:
    """One turn at a time; among waiting threads the lowest number goes first."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiting: list[int] = []
        self._taken = False

    @contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Wait until no other turn is taken and no lower number waits."""
        with self._change:
            heapq.heappush(self._waiting, number)
            self._change.wait_for(lambda: not self._taken and self._waiting[0] == number)
            heapq.heappop(self._waiting)
            self._taken = True
        try:
            yield
        finally:
            with self._change:
                self._taken = False
                self._change.notify_all()
