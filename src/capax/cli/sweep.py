"""`capax sweep`: run an experiment file into a store; again to resume."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capax.cli.output import JsonFlag, emit, note, stderr

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from capax.sweep.job import Status


class Where(StrEnum):
    """Where the training runs."""

    here = "here"
    ray = "ray"


def sweep(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (TOML).")],
    scale: Annotated[
        str | None, typer.Option(help="One of the file's scales; its first one by default.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="SQLite file; out/NAME-SCALE.sqlite by default.")
    ] = None,
    on: Annotated[Where, typer.Option(help="Train here or on a Ray cluster.")] = Where.here,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster to join (`auto`); a local one by default.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Values of T in work at once (here only).")] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Train what an experiment asks for, and keep every run in one SQLite file.

    Killed or interrupted, the same command goes on where it stopped: no run is lost but those in
    flight, none is repeated.

    Example: `capax sweep experiments/figure2.toml --scale quick --store out/figure2.sqlite`
    """
    from capax.errors import InputError
    from capax.sweep.runner import run_sweep
    from capax.sweep.spec import load_experiment
    from capax.sweep.store import Store

    if address is not None and on is not Where.ray:
        raise InputError("address: wanted together with --on ray, got it without")
    plan = load_experiment(experiment, scale)
    path = store or _default_store(f"{plan.name}-{plan.scale}.sqlite")
    with Store.create_or_resume(path, plan) as opened, _progress() as progress:
        bar = _Bar(progress, f"{plan.name} ({plan.scale})")
        if on is Where.ray:
            from capax.sweep.cluster import run_on_ray

            status = run_on_ray(plan, opened, address=address, report=bar)
        else:
            status = run_sweep(plan, opened, jobs_at_once=jobs, report=bar)
    summary: dict[str, object] = {
        "experiment": plan.name,
        "scale": plan.scale,
        "store": str(path),
        "trials": status.trials,
        "solved": status.solved,
        "runs": status.runs,
        "resumed_trials": bar.resumed,
    }
    if bar.resumed:
        note(f"{bar.resumed} trials were in the store already")
    emit(summary, as_json, lambda console: _show(console, summary))


def _default_store(name: str) -> Path:
    folder = Path("out")
    folder.mkdir(exist_ok=True)
    return folder / name


def _show(console: "Console", summary: dict[str, object]) -> None:
    console.print(
        "{store}: {trials} trials, {solved} solved, {runs} runs".format(**summary), soft_wrap=True
    )


def _progress() -> "Progress":
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("trials, {task.fields[solved]} solved, {task.fields[running]} running"),
        TextColumn("({task.fields[runs]} runs)"),
        TimeElapsedColumn(),
        TextColumn("left at most"),
        TimeRemainingColumn(),
        console=stderr(),
    )


class _Bar:
    """Shows a sweep's status; remembers how many trials were there at the start."""

    def __init__(self, progress: "Progress", title: str) -> None:
        self._progress = progress
        self._title = title
        self._task = None
        self.resumed = 0

    def __call__(self, status: "Status") -> None:
        shown = {"solved": status.solved, "running": status.running, "runs": status.runs}
        if self._task is None:
            self.resumed = status.trials
            self._task = self._progress.add_task(
                self._title, total=status.most_trials, completed=status.trials, **shown
            )
        self._progress.update(
            self._task, total=status.most_trials, completed=status.trials, **shown
        )


def register(app: typer.Typer) -> None:
    app.command("sweep")(sweep)
