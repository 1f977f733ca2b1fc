"""Run jobs on a Ray cluster: chunks of trials are Ray tasks, this process is the only writer.

Ray does the scheduling: it places tasks on a free core (or a part of a GPU, for learners of the
engine), and runs a task again when its worker or node dies. A chunk is a pure function of its
trials, so a second run gives the same outcomes; a death only delays its chunk.

Ray keeps its worker processes between tasks, and a worker keeps the process of a learner that is
fitted: it imports its libraries once. Only a few tasks per core are submitted at a time, so that
waiting for them stays cheap.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from capax.errors import InfeasibleError, InputError, require
from capax.foreign import one_line
from capax.sweep.experiments.spec import Experiment, Panel
from capax.sweep.families.known_families import check_experiment, family_of
from capax.sweep.families.lanes_family import LanesFamily
from capax.sweep.families.plain_family import PlainFamily
from capax.sweep.running.job import Job, ShouldStop, Status, jobs_of
from capax.sweep.running.pulse import Pulse, gone
from capax.sweep.running.runner import Report, Way, run_jobs
from capax.sweep.running.shipping import files_of, staged
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Trial

_RETRIES = 10
"""How often Ray restarts a chunk after the death of its worker or node."""
_ROUND, _FEW = 1024, 2  # trials per task on a GPU, and on a core
AHEAD = 4  # submitted tasks per core, or per part of a GPU
_GLANCE, _LONG = 0.5, 5.0  # seconds between checks for ready and for fetched results


def run_on_ray(
    experiment: Experiment,
    store: Store,
    *,
    address: str | None = None,
    report: Report | None = None,
    chunk: int | None = None,
    gpus: float = 1.0,
) -> Status:
    """Train the missing trials of the store on the cluster at `address` (a local one if None).

    `chunk`: trials per task; by default a GPU gets a whole round, a core a few trials. `gpus`: part
    of a GPU for a task of the engine, if the cluster has one.
    Raises `InputError` when Ray is not installed or the cluster cannot be reached.
    """
    check_experiment(experiment)
    learners = [panel.family for panel in experiment.panels]
    data = [str(panel.task["data"]) for panel in experiment.panels if "data" in panel.task]
    way = on_ray(address, chunk, gpus=gpus, files=files_of(learners, data))
    return run_jobs(jobs_of(experiment, store), store, way, report=report)


def run_chunk(panel: Panel, T: int, trials: list[Trial]) -> list[Outcome]:
    """The work of a Ray worker: train these trials and return their outcomes."""
    family = family_of(panel)
    if isinstance(family, PlainFamily):
        family = family.kept_alive()
    return list(family.learner(panel, T)(iter(trials)))


def on_ray(
    address: str | None = None,
    chunk: int | None = None,
    *,
    gpus: float = 1.0,
    files: Sequence[Path] = (),
) -> Way:
    """Jobs on the cluster at `address`. Raises `InputError` as `run_on_ray` does.

    files: relative paths in the working directory of every worker.
    """
    require(0 < gpus <= 1, "gpus", "a part of a GPU, in (0, 1]", gpus)
    ray = _connected(address, files)
    resources, pulse = ray.cluster_resources(), Pulse(ray)
    num_gpus = int(resources.get("GPU", 0))
    on_cores = ray.remote(max_retries=_RETRIES, num_cpus=1)(run_chunk)
    on_gpus = ray.remote(max_retries=_RETRIES, num_gpus=gpus)(run_chunk) if num_gpus else on_cores
    places = max(1, int(resources.get("CPU", 1))), max(1, int(num_gpus / gpus))

    def outcomes(jobs: Sequence[Job], should_stop: ShouldStop) -> Iterator[Outcome]:
        """Keep some tasks per core waiting, in the order of the jobs; receive the results."""
        running: dict[Any, Job] = {}
        in_flight = [0, 0]

        def submit() -> None:
            for job in jobs:
                gpu = bool(num_gpus) and isinstance(job.family, LanesFamily)
                size, task = chunk or (_ROUND if gpu else _FEW), on_gpus if gpu else on_cores
                while in_flight[gpu] < AHEAD * places[gpu] and (
                    trials := list(islice(iter(job.take, None), size))
                ):
                    running[task.remote(job.panel, job.T, trials)] = job
                    in_flight[gpu] += 1

        def fetched(reference: Any) -> list[Outcome]:
            while True:  # results of a dead node are computed again
                pulse.check()
                with suppress(ray.exceptions.GetTimeoutError):
                    return _heard(ray, ray.get, reference, timeout=_LONG)

        with _stdout_kept():
            submit()
            while running and not should_stop():
                pulse.check()
                many = max(1, len(running) // 4)  # ready results are received together
                ready, _ = _heard(ray, ray.wait, list(running), num_returns=1, timeout=_GLANCE)
                if ready:
                    ready, _ = _heard(ray, ray.wait, list(running), num_returns=many, timeout=0)
                for reference in ready:
                    job = running.pop(reference)
                    in_flight[bool(num_gpus) and isinstance(job.family, LanesFamily)] -= 1
                    for outcome in fetched(reference):
                        job.record(outcome)
                        yield outcome
                submit()

    return outcomes


@contextmanager
def _stdout_kept() -> Iterator[None]:
    """Send Ray's own output to standard error inside the block: standard output is for results.

    Ray reports dead workers in colour, from Python and from C++.
    """
    python, kept = sys.stdout, None
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = python
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _heard(ray: Any, ask: Any, *arguments: Any, **settings: Any) -> Any:
    """The answer of the cluster. Raises errors of tasks, or `InfeasibleError` without an answer."""
    try:
        return ask(*arguments, **settings)
    except ray.exceptions.GetTimeoutError:
        raise
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except (ray.exceptions.RayError, ConnectionError) as error:
        first = one_line(str(error), 120)
        raise InfeasibleError(gone(f"{type(error).__name__}: {first}")) from None


def _connected(address: str | None, files: Sequence[Path] = ()) -> Any:
    """The `ray` module, connected to a cluster whose workers have the files."""
    try:
        import ray
    except ImportError:
        raise InputError("--on ray: ray is not installed; pip install 'capax[ray]'") from None
    if not ray.is_initialized():
        with tempfile.TemporaryDirectory(prefix="capax-ray-") as folder, _stdout_kept():
            shipped = staged(files, Path(folder))
            settings: dict[str, Any] = {"log_to_driver": False, "include_dashboard": False}
            if shipped is not None:
                settings["runtime_env"] = {"working_dir": str(shipped)}
            try:
                ray.init(address=address, **settings)
            except (ConnectionError, ValueError) as error:
                first = str(error).strip().splitlines()[0]
                raise InputError(f"address: no Ray cluster at {address!r} ({first})") from None
    return ray
