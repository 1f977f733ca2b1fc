"""`capax reproduce`: the paper's figures, a compiled function, a bound and a report, in one go."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.output import JsonFlag, emit, stderr

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from capax.sweep.job import Status


def reproduce(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all results.")] = Path("out"),
    scale: Annotated[
        str, typer.Option(help="quick (minutes on a laptop), paper or beyond.")
    ] = "quick",
    experiments: Annotated[
        Path, typer.Option(help="Folder with figure2.toml, figure3.toml and figure4.toml.")
    ] = Path("experiments"),
    jobs: Annotated[int, typer.Option(min=1, help="Values of T in work at once.")] = 2,
    json: JsonFlag = False,
) -> None:
    """Reproduce Figures 1 to 4, compile and certify a function, explain a bound, write a report.

    Interrupted, the same command goes on where it stopped: finished trials are never repeated.

    Example: `capax reproduce --out out --scale quick`
    """
    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    with _progress() as progress:
        summary = _run(_Stages(progress), out, scale, experiments, jobs)
    summary["seconds"] = round(time.perf_counter() - started, 1)
    emit(summary, json, lambda console: _show(console, summary))


def _run(stages: "_Stages", out: Path, scale: str, experiments: Path, jobs: int) -> dict[str, Any]:
    with stages.single("loading"):
        from capax.report import reproduction as stage
        from capax.report.build import write_report
        from capax.report.showcase import bound_section, compiled_section, diagram_section

        files = {name: stage.experiment_file(experiments, name) for name in stage.EXPERIMENTS}
    stores = []
    for name, file in files.items():
        stores.append(out / f"{name}-{scale}.sqlite")
        stage.sweep_into(file, scale, stores[-1], jobs=jobs, report=stages.sweep(name))
    with stages.single("printing the figures"):
        printed = stage.print_figures(stores, out)
    with stages.single("a compiled function and a bound"):
        shown = stage.make_showcase(out)
    with stages.single("writing the report"):
        compiled = compiled_section(shown.certificate, shown.verification)
        bound = bound_section(
            shown.bound, m=shown.m, what=f"the head compiled from {stage.FORMULA}"
        )
        page = write_report(
            stores, out / "report.html", first=[diagram_section()], last=[compiled, bound]
        )
    return {
        "report": str(out / "report.html"),
        "scale": scale,
        "figures": [str(path) for path in printed],
        "stores": [str(path) for path in stores],
        "findings": [{"value": f.value, "meaning": f.meaning} for f in page.findings],
        "certificate": shown.certificate.to_json(),
        "verified": shown.verification.ok,
        "bound": shown.bound.to_json(),
    }


class _Stages:
    """One progress bar per stage."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress

    def single(self, title: str) -> "_Single":
        """A stage without parts: done when its block ends."""
        return _Single(self._progress, title)

    def sweep(self, title: str) -> "_Sweep":
        """A stage of trials: call it with every new status."""
        return _Sweep(self._progress, title)


class _Single:
    def __init__(self, progress: "Progress", title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None, detail="")

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        done = 1 if kind is None else 0
        self._progress.update(self._task, total=1, completed=done, refresh=True)
        self._progress.stop_task(self._task)


class _Sweep:
    def __init__(self, progress: "Progress", title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None, detail="")

    def __call__(self, status: "Status") -> None:
        detail = f"{status.trials} trials, {status.solved} solved, {status.runs} runs"
        finished = status.finished_jobs == status.jobs
        total = status.trials if finished else status.most_trials
        self._progress.update(self._task, total=total, completed=status.trials, detail=detail)
        if finished:
            self._progress.stop_task(self._task)


def _progress() -> "Progress":
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(finished_text="*"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}"),
        console=stderr(),
    )


def _show(console: "Console", summary: dict[str, Any]) -> None:
    for finding in summary["findings"]:
        console.print(f"{finding['value']}: {finding['meaning']}", markup=False)
    verified = "verified" if summary["verified"] else "NOT verified"
    console.print(f"{summary['certificate']['function']}: compiled, {verified}", markup=False)
    console.print(f"{summary['report']} ({summary['seconds']:.0f} s)", markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add `reproduce` to the command line."""
    app.command("reproduce", epilog="Example: `capax reproduce --out out`")(reproduce)
