"""A live bar for people who watch: runs done, solved, running, steps per second, time left.

Nothing is drawn when standard error is not a terminal.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from capax.terminal import Terminal
from capax.training.engine import Tally


@contextmanager
def live_bar(num_trials: int | None = None) -> Iterator["Bar"]:
    """A bar to pass to `train(progress=...)`; with `num_trials` it also knows the time left."""
    console = Terminal(stderr=True)
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}", markup=False))
    if num_trials is not None:
        columns += (TimeRemainingColumn(),)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield Bar(progress, num_trials)


class Bar:
    """Draws each tally; call it like a function."""

    def __init__(self, progress: Progress, num_trials: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task("waiting for the first run", total=num_trials)

    def __call__(self, tally: Tally) -> None:
        """Redraw."""
        self._progress.update(self._task, completed=tally.trials_done, description=words(tally))


def words(tally: Tally) -> str:
    """The tally as one line."""
    rate = tally.steps_done / tally.seconds if tally.seconds > 0 else 0.0
    return (
        f"{tally.runs_done} runs done, {tally.runs_solved} solved, {tally.runs_running} running, "
        f"{rate:,.0f} steps/s"
    )
