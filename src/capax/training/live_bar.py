"""Progress of `train`: a bar on a terminal, else one line a minute."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TimeRemainingColumn
from rich.table import Column

from capax.errors import counted
from capax.progress import Lines, every_minute, fixed, shrinking_bar
from capax.terminal import Terminal
from capax.training.slots.crew import Tally


@contextmanager
def live_bar(num_trials: int | None = None) -> Iterator["Bar"]:
    """A bar to pass to `train(progress=...)`; with `num_trials` it also shows the time left."""
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


class Bar:
    """Draws each tally; call it like a function."""

    def __init__(
        self, progress: Progress | None, num_trials: int | None, lines: Lines | None = None
    ) -> None:
        self._progress, self._lines, self._num_trials = progress, lines, num_trials
        if progress is not None:
            self._task = progress.add_task("waiting for the first run", total=num_trials)

    def __call__(self, tally: Tally) -> None:
        """Redraw, or store for the next line."""
        if self._progress is not None:
            self._progress.update(self._task, completed=tally.trials_done, description=words(tally))
        if self._lines is not None:
            done = f"{tally.trials_done} of {self._num_trials} trials, " if self._num_trials else ""
            self._lines.text = lambda: done + words(tally)


def words(tally: Tally) -> str:
    """The tally in at most 60 columns."""
    rate = tally.steps_done / tally.seconds if tally.seconds > 0 else 0.0
    return (
        f"{counted(tally.runs_done, 'run')}, {tally.runs_solved} solved, "
        f"{tally.runs_running} running, {rate:,.0f} steps/s"
    )
