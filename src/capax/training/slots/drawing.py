"""Threads that draw data in the background; the call of `train` that began first is served first.

All calls of `train` share these threads. If requests were served in the order of their arrival, the
first call would fill its slots only when the last one is nearly ready too: the device would wait.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from capax.machine import num_cores

# Much of drawing is Python: more threads do not draw faster, and delay other threads.
_THREADS = max(2, min(4, num_cores() // 4))
_order = itertools.count()
_change = threading.Condition()
_waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
_threads: list[threading.Thread] = []


def in_background(priority: int, work: Callable[[], Any]) -> Future[Any]:
    """`work()` in a thread: the lowest priority first, equal ones in the order of the calls."""
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
        del future, work  # only the caller holds the drawn data
