"""`capax sweep`: run an experiment file into a store; again to resume."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.experiments.where import Address, On, PartOfGpu, Where, ready_for
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.watching import Report, watching
from capax.errors import counted

if TYPE_CHECKING:
    from capax.sweep.experiments.spec import Experiment
    from capax.sweep.running.job import Status
    from capax.sweep.storage.store import Unfinished
    from capax.terminal import Terminal


ExperimentName = Annotated[
    str, typer.Argument(help="Experiment file (TOML), or the name of one that ships.")
]
Scale = Annotated[
    str | None, typer.Option(help="One of the file's scales; its first one by default.")
]
StoreFile = Annotated[
    Path | None, typer.Option(help="SQLite file; out/NAME-SCALE.sqlite by default.")
]
FreshSeed = Annotated[
    int | None,
    typer.Option(min=0, help="Repeat the experiment with fresh data; the file's by default."),
]
AtOnce = Annotated[int, typer.Option(min=1, help="Values of T at once (not with --on ray).")]
InProcesses = Annotated[
    bool,
    typer.Option(
        "--processes",
        help="Every T in a separate process: with --jobs 7, seven processes share a GPU.",
    ),
]


def sweep(
    experiment: ExperimentName,
    scale: Scale = None,
    store: StoreFile = None,
    seed: FreshSeed = None,
    on: On = Where.here,
    address: Address = None,
    gpus: PartOfGpu = 1.0,
    jobs: AtOnce = 1,
    processes: InProcesses = False,
    as_json: JsonFlag = False,
) -> None:
    """Train the trials of an experiment, and keep every run in one SQLite file.

    Killed or interrupted, the same command continues where it stopped: only unfinished trials are
    lost, and no finished trial is repeated. Search settings and values of T may change in between;
    finished trials are kept. Shipped experiments: ablation, figure2, figure3, figure4, smoke.

    Example: `capax sweep figure2 --scale quick --store out/figure2.sqlite`
    """
    from capax.errors import inside
    from capax.sweep.experiments.shipped import experiment_path
    from capax.sweep.experiments.spec import load_experiment
    from capax.sweep.families.known_families import check_experiment
    from capax.sweep.running.runner import run_sweep
    from capax.sweep.storage.store import Store
    from capax.sweep.storage.troubles import trouble_lines, troubles

    ready_for(on, address)
    source = experiment_path(experiment)
    plan = load_experiment(source, scale, seed=seed)
    with inside(f"{source}: "):
        check_experiment(plan)
    repeat = f"-seed{seed}" if seed else ""
    path = store or _default_store(f"{plan.name}-{plan.scale}{repeat}.sqlite")
    with Store.create_or_resume(path, plan) as opened, watching() as watch:
        report = _Counting(watch.sweep(f"{plan.name} ({plan.scale})"))
        if on is Where.ray:
            from capax.sweep.running.cluster import run_on_ray

            status = run_on_ray(plan, opened, address=address, report=report, gpus=gpus)
        else:
            status = run_sweep(
                plan, opened, jobs_at_once=jobs, in_processes=processes, report=report
            )
        unfinished, failed = opened.unfinished(), troubles(opened)
    summary = _summary(plan, path, status, report.resumed, unfinished)
    summary["troubles"] = [asdict(one) for one in failed]
    if report.resumed:
        note(f"already in the store: {counted(report.resumed, 'trial')}")
    for job in unfinished:
        note(f"{job.panel}, {job}")
    for line in trouble_lines(failed):
        note(line)
    emit(summary, as_json, lambda console: _show(console, summary))
    if status.finished_jobs and any(job.note.startswith("stopped") for job in unfinished):
        raise typer.Exit(2)


def _summary(
    plan: "Experiment",
    path: Path,
    status: "Status",
    resumed: int | None,
    unfinished: "tuple[Unfinished, ...]",
) -> dict[str, object]:
    return {
        "experiment": plan.name,
        "scale": plan.scale,
        "store": str(path),
        "trials": status.trials,
        "solved": status.solved,
        "runs": status.runs,
        "resumed_trials": resumed,
        "unfinished": [asdict(job) for job in unfinished],
    }


def _default_store(name: str) -> Path:
    from capax.errors import require

    plain = name.isprintable() and not set(name) & set("/\\") and len(name) < 200
    require(plain, "store", "--store FILE (the name of this experiment is not a file name)", name)
    folder = Path("out")
    folder.mkdir(exist_ok=True)
    return folder / name


def _show(console: "Terminal", summary: dict[str, Any]) -> None:
    trials, runs = counted(summary["trials"], "trial"), counted(summary["runs"], "run")
    console.print(f"{summary['store']}: {trials}, {summary['solved']} solved, {runs}")


class _Counting:
    """Passes a sweep's status on; keeps the number of trials at the start."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.resumed: int | None = None

    def __call__(self, status: "Status") -> None:
        if self.resumed is None:
            self.resumed = status.trials
        self._report(status)


def register(app: typer.Typer) -> None:
    app.command("sweep")(sweep)
