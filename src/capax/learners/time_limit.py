"""A time limit inside this process: what Python can interrupt is interrupted.

Native code that never returns cannot be stopped this way; give such a learner as `file.py:name`,
and it runs in a process of its own, where waiting for a core does not count (`stopwatch`; here it
does). Elsewhere than in the main thread there is no alarm.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the block after `seconds`."""
    possible = hasattr(signal, "SIGALRM")
    if not possible or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: object) -> None:
        raise TimeoutError(f"took more than the time limit of {seconds:g} s for one fit")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
