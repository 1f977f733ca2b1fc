"""Progress: bars on a terminal, one line a minute in a log.

Everything fits 80 columns: counts and times are never cut, the bar gets the rest of the line.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, TextColumn
from rich.table import Column

from capax.foreign import printable

MINUTE = 60.0


def shrinking_bar() -> BarColumn:
    """A bar that fills the rest of the line."""
    return BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4))


def fixed(text: str) -> TextColumn:
    """Text that is neither wrapped nor cut nor read as markup."""
    return TextColumn(text, markup=False, table_column=Column(no_wrap=True))


class Lines:
    """Prints the line of `text` every few seconds, except while `text` is None."""

    def __init__(self, seconds: float) -> None:
        self.text: Callable[[], str] | None = None
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True, name="progress")
        self._thread.start()

    def say(self, line: str) -> None:
        """Print a line now."""
        print(printable(line), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Stop printing."""
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._over.wait(self._seconds):
            text = self.text
            if text is not None:
                self.say(text())


@contextmanager
def every_minute(seconds: float = MINUTE) -> Iterator[Lines]:
    """Lines for a log, one every `seconds`, even if nothing changed."""
    lines = Lines(seconds)
    try:
        yield lines
    finally:
        lines.close()


def clock(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


class Stopwatch:
    """The time so far, and an upper estimate of the remaining time from the pace so far."""

    def __init__(self, already: int = 0) -> None:
        self._began, self._already = time.monotonic(), already

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def left(self, done: int, total: int) -> float | None:
        """Seconds for the rest at the pace so far; `None` before the first result."""
        new = done - self._already
        return self.elapsed * (total - done) / new if new > 0 else None
