"""Progress of long commands: bars on a terminal, a line a minute elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from capax.cli.speaking.output import stderr
from capax.errors import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from capax.progress import Lines, Stopwatch
    from capax.sweep.running.job import Status

Report = Callable[["Status"], None]


@runtime_checkable
class Watch(Protocol):
    """The display of a command's progress."""

    def sweep(self, title: str) -> Report:
        """A stage of trials: call the result with every new status."""
        ...

    def single(self, title: str) -> AbstractContextManager[None]:
        """A stage without parts: done when its block ends."""
        ...


@contextmanager
def watching() -> Iterator[Watch]:
    """Bars if stderr is a terminal, lines if it is a file or a pipe."""
    from capax.progress import every_minute

    console = stderr()
    if not console.is_terminal:
        with every_minute() as lines:
            yield InLines(lines)
        return
    with _bars(console) as progress:
        yield InBars(progress)


def _bars(console: "Console") -> "Progress":
    from rich.progress import Progress, TextColumn
    from rich.table import Column

    from capax.progress import fixed, shrinking_bar

    title = TextColumn(
        "{task.description}",
        markup=False,
        table_column=Column(no_wrap=True, overflow="ellipsis", max_width=24),
    )
    return Progress(
        title, shrinking_bar(), fixed("{task.fields[detail]}"), console=console, expand=True
    )


class InBars:
    """One bar per stage."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress

    def sweep(self, title: str) -> Report:
        from capax.progress import Stopwatch

        begun: list[tuple[Stopwatch, TaskID]] = []  # empty until the first report: some begin later

        def report(status: "Status") -> None:
            if not begun:
                task = self._progress.add_task(title, total=None, detail="")
                begun.append((Stopwatch(status.trials), task))
            watch, task = begun[0]
            detail, total = short(status, watch), status.most_trials
            self._progress.update(task, total=total, completed=status.trials, detail=detail)

        return report

    @contextmanager
    def single(self, title: str) -> Iterator[None]:
        task = self._progress.add_task(title, total=None, detail="")
        yield
        self._progress.update(task, total=1, completed=1, refresh=True)


class InLines:
    """For every stage a line at its beginning and its end, and one every minute in between."""

    def __init__(self, lines: "Lines") -> None:
        self._lines = lines
        self._running: dict[str, Callable[[], str]] = {}

    def sweep(self, title: str) -> Report:
        from capax.progress import Stopwatch

        watch: list[Stopwatch] = []
        over = False

        def report(status: "Status") -> None:
            nonlocal over
            ended = status.finished_jobs == status.jobs
            if over and ended:  # outcomes on their way to the store: one closing line is enough
                return
            if over:  # further trials of the same command
                watch.clear()
            if not watch:
                watch.append(Stopwatch(status.trials))
                self._lines.say(f"{title}: {status.trials} of at most {status.most_trials} trials")
            over = ended
            if over:
                self._now(title, None)
                self._lines.say(f"{title}: {long(status, watch[0])}")
            else:
                self._now(title, lambda: f"{title}: {long(status, watch[0])}")

        return report

    def _now(self, title: str, text: Callable[[], str] | None) -> None:
        """Set the line of a running stage; None when the stage is over."""
        others = {name: said for name, said in self._running.items() if name != title}
        self._running = others if text is None else {**others, title: text}
        running = tuple(self._running.values())  # the printing thread keeps its copy
        self._lines.text = (lambda: "\n".join(t() for t in running)) if running else None

    @contextmanager
    def single(self, title: str) -> Iterator[None]:
        self._lines.say(title)
        yield


def short(status: "Status", watch: "Stopwatch") -> str:
    """The counts and times beside a bar, in about 45 columns."""
    so_far, left = _times(status, watch)
    done = f"{status.trials}/{status.most_trials}, {status.solved} solved"
    return f"{done}, {so_far}{f', left <= {left}' if left else ''}"


def long(status: "Status", watch: "Stopwatch") -> str:
    """The same for a log, with the jobs that run now."""
    so_far, left = _times(status, watch)
    runs = counted(status.runs, "run")
    running = f", at work: {status.at_work}" if status.at_work else ""
    if not (status.runs or running):  # no report since the beginning
        running = ", compiling and training the first"
    return (
        f"{status.trials} of at most {status.most_trials} trials, {status.solved} solved, "
        f"{runs}{running}, {so_far}{f', at most {left} left' if left else ''}"
    )


def _times(status: "Status", watch: "Stopwatch") -> tuple[str, str]:
    from capax.progress import clock

    left = watch.left(status.trials, status.most_trials)
    over = status.finished_jobs == status.jobs
    return clock(watch.elapsed), "" if left is None or over else clock(left)
