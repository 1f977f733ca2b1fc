"""Messages of `capax card` while it runs: how long it may take, and first answers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from capax.cli.speaking.output import note
from capax.cli.speaking.watching import Report, watching
from capax.errors import counted

if TYPE_CHECKING:
    from capax.sweep.running.job import Status

_PATIENCE = 20.0  # seconds before a card prints results so far
_PAUSE = 60.0  # seconds between two such reports
_LINES = 4  # printed at once
_DAY = 86400.0  # seconds; a larger limit is not printed
_SLOW = 5.0  # if the first trial takes longer, a card prints an estimate of its time


@contextmanager
def card_progress(
    title: str, minutes: float | None, limit: float | None = None
) -> Iterator[Report]:
    """The progress of the card, its expected time, and first results.

    minutes: the time budget. limit: seconds per trial, if every learner has such a limit.
    """
    with watching() as watch:
        yield _Sharpening(watch.sweep(title), minutes, limit)


class _Sharpening:
    """Passes a card's status on; prints first results if answers take long."""

    def __init__(self, report: Report, minutes: float | None, limit: float | None) -> None:
        self._report, self._minutes, self._limit = report, minutes, limit
        self._said: tuple[str, ...] = ()
        self._began = time.monotonic()
        self._next = self._began + _PATIENCE
        self._known: int | None = None  # trials of earlier commands
        self._estimated = False

    def __call__(self, status: "Status") -> None:
        now = time.monotonic()
        if self._known is None:
            self._known = status.trials
            if status.finished_jobs < status.jobs:
                note(before(status, self._limit, self._minutes))
        self._report(status)
        if not self._estimated and status.trials > self._known:
            self._estimated = True
            if now - self._began > _SLOW:
                note(estimate(status, self._known, now - self._began, self._minutes))
        if status.so_far != self._said and now >= self._next:
            self._said, self._next = status.so_far, now + _PAUSE
            for line in status.so_far[:_LINES]:
                note(f"unfinished: {line}")


def before(status: "Status", limit: float | None, minutes: float | None) -> str:
    """The number of cells and trials, and the longest time, before the first trial."""
    from capax.machine import num_cores
    from capax.progress import clock

    trials = status.most_trials - status.trials
    line = f"{counted(status.jobs, 'cell')}, at most {counted(trials, 'trial')} to make"
    if limit is not None and limit < _DAY:
        most = clock(limit * -(-trials // num_cores()))
        line += f"; a fit takes at most {limit:g} s (--time-limit), so all of them at most {most}"
    return line if minutes is None else f"{line}; ends after --minutes {minutes:g}"


def estimate(status: "Status", known: int, seconds: float, minutes: float | None) -> str:
    """The longest time of a card, estimated from the time of its first trials.

    known: trials of earlier commands. All finished and current trials together take `seconds`.
    """
    from capax.progress import clock

    together = max(1, status.trials - known + status.running)
    whole = seconds * (status.most_trials - known) / together
    line = f"first trial after {clock(seconds)}; at this pace at most {clock(whole)} in all"
    if minutes is not None and whole > 60 * minutes:
        line += f"; --minutes {minutes:g} ends it earlier, perhaps with unfinished cells"
    return line
