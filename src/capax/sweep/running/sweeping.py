"""A sweep in one call: an experiment into a store; an interrupted one is resumed."""

from pathlib import Path

from capax.sweep.experiments.shipped import experiment_path
from capax.sweep.experiments.spec import Experiment, load_experiment
from capax.sweep.families.known_families import check_experiment
from capax.sweep.running.runner import Report, run_sweep
from capax.sweep.storage.store import Store


def sweep(
    experiment: str | Path | Experiment,
    store: str | Path,
    *,
    scale: str | None = None,
    seed: int | None = None,
    jobs: int = 1,
    processes: bool = False,
    report: Report | None = None,
) -> Path:
    """Train the trials of `experiment` into the SQLite file `store`; returns the path of that file.

    experiment: a TOML file, a shipped name (ablation, figure2, figure3, figure4, frontier, leaps,
    parity, smoke) or an `Experiment`. The same call resumes an interrupted sweep. seed: repeat a
    file's experiment with fresh data. jobs: values of T at once, with `processes` each in a
    separate process. report: called with every new status.
    Raises `InputError` for a file that cannot be used.

    Examples:
        >>> import capax, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "known.toml").write_text('family = "simulated"\\nT = [10, 100]')
        >>> capax.sweep(folder / "known.toml", folder / "known.sqlite").name
        'known.sqlite'
    """
    plan = (
        experiment
        if isinstance(experiment, Experiment)
        else load_experiment(experiment_path(str(experiment)), scale, seed=seed)
    )
    check_experiment(plan)
    with Store.create_or_resume(Path(store), plan) as opened:
        run_sweep(plan, opened, jobs_at_once=jobs, in_processes=processes, report=report)
    return Path(store)
