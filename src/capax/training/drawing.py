"""Threads that draw data in the background, for whoever began first.

Several calls of `train` share them. First come, first served among all would mean that the first
call cannot fill its slots before the last one is nearly ready too, and the device waits for both.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from capax.machine import num_cores

# Much of drawing is Python: many threads do not draw faster, they only keep others waiting longer.
_THREADS = max(2, min(4, num_cores() // 4))
_order = itertools.count()
_change = threading.Condition()
_waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
_threads: list[threading.Thread] = []


def in_background(priority: int, work: Callable[[], Any]) -> Future[Any]:
    """`work()` in a thread: the lowest priority first, in the order of the calls where equal."""
    future: Future[Any] = Future()
    with _change:
        heapq.heappush(_waiting, (priority, next(_order), future, work))
        _threads[:] = [thread for thread in _threads if thread.is_alive()]  # a fork has none
        while len(_threads) < _THREADS:
            _threads.append(threading.Thread(target=_serve, name="capax-draw", daemon=True))
            _threads[-1].start()
        _change.notify()
    return future


def _serve() -> None:
    while True:
        with _change:
            _change.wait_for(lambda: bool(_waiting))
            _, _, future, work = heapq.heappop(_waiting)
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
        del future, work  # what was drawn belongs to who asked for it
