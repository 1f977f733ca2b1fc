"""A time limit inside this process, for code that Python can interrupt.

Native code that never returns cannot be stopped this way; give such a learner as `file.py:name`,
and it runs in a separate process, where waiting for a core does not count (`fit_clock`; here it
does). The limit works in the main thread only.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_TICK = 0.2  # seconds between looks at the clock


@contextmanager
def time_limit(seconds: float, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Raise `TimeoutError` in the block after `seconds`, or an earlier error of `check`.

    If a learner catches the error, it is raised again at the next tick.
    """
    possible = hasattr(signal, "SIGALRM")
    if not possible or threading.current_thread() is not threading.main_thread():
        yield
        return
    end = time.monotonic() + seconds

    def tick(*_: object) -> None:
        check()
        if time.monotonic() >= end:
            raise TimeoutError(f"took more than the time limit of {seconds:g} s for one fit")

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, _TICK), _TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
