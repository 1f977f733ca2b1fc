"""Progress for people who watch, and for logs: a bar on a terminal, else one line a minute.

Everything fits 80 columns; what cannot shrink (counts, times) is never cut, the bar gives way.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column

from capax.foreign import printable
from capax.terminal import Terminal
from capax.training.crew import Tally

MINUTE = 60.0


@contextmanager
def live_bar(num_trials: int | None = None) -> Iterator["Bar"]:
    """A bar to pass to `train(progress=...)`; with `num_trials` it also knows the time left."""
    console = Terminal(stderr=True)
    if not console.is_terminal:
        with every_minute() as lines:
            yield Bar(None, num_trials, lines)
        return
    columns = (SpinnerColumn(), shrinking_bar(), fixed("{task.description}"))
    if num_trials is not None:
        columns += (TimeRemainingColumn(table_column=Column(no_wrap=True)),)
    with Progress(*columns, console=console, expand=True) as progress:
        yield Bar(progress, num_trials)


def shrinking_bar() -> BarColumn:
    """A bar that takes the room that is left."""
    return BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4))


def fixed(text: str) -> TextColumn:
    """Text that is neither wrapped nor cut nor read as markup."""
    return TextColumn(text, markup=False, table_column=Column(no_wrap=True))


class Bar:
    """Draws each tally; call it like a function."""

    def __init__(
        self, progress: Progress | None, num_trials: int | None, lines: "Lines | None" = None
    ) -> None:
        self._progress, self._lines, self._num_trials = progress, lines, num_trials
        if progress is not None:
            self._task = progress.add_task("waiting for the first run", total=num_trials)

    def __call__(self, tally: Tally) -> None:
        """Redraw, or remember for the next line."""
        if self._progress is not None:
            self._progress.update(self._task, completed=tally.trials_done, description=words(tally))
        if self._lines is not None:
            done = f"{tally.trials_done} of {self._num_trials} trials, " if self._num_trials else ""
            self._lines.text = lambda: done + words(tally)


def words(tally: Tally) -> str:
    """The tally in at most 60 columns."""
    rate = tally.steps_done / tally.seconds if tally.seconds > 0 else 0.0
    return (
        f"{tally.runs_done} runs, {tally.runs_solved} solved, {tally.runs_running} running, "
        f"{rate:,.0f} steps/s"
    )


class Lines:
    """Prints what `text` says, every so often; nothing while there is nothing to say."""

    def __init__(self, seconds: float) -> None:
        self.text: Callable[[], str] | None = None
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True, name="progress")
        self._thread.start()

    def say(self, line: str) -> None:
        """A line right now."""
        print(printable(line), file=sys.stderr, flush=True)

    def close(self) -> None:
        """No more lines."""
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._over.wait(self._seconds):
            text = self.text
            if text is not None:
                self.say(text())


@contextmanager
def every_minute(seconds: float = MINUTE) -> Iterator[Lines]:
    """Lines for a log, one every `seconds`, also while no news comes in."""
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
    """Time so far, and an upper estimate of the time left from the pace so far."""

    def __init__(self, already: int = 0) -> None:
        self._began, self._already = time.monotonic(), already

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def left(self, done: int, total: int) -> float | None:
        """Seconds for the rest at the pace so far; `None` before anything was done."""
        new = done - self._already
        return self.elapsed * (total - done) / new if new > 0 else None
