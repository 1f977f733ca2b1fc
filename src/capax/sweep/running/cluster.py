"""Run jobs on a Ray cluster: chunks of trials are Ray tasks, this process is the only writer.

Ray does the scheduling: it places tasks where a GPU (or a core) is free, and runs a task again
when its worker or node dies. A chunk is a pure function of its trials, so a second run gives the
same outcomes; a death only delays its chunk.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from capax.errors import InfeasibleError, InputError
from capax.foreign import one_line
from capax.sweep.known_families import check_experiment, family_of
from capax.sweep.plain_family import PlainFamily
from capax.sweep.running.job import Job, ShouldStop, Status, jobs_of
from capax.sweep.running.runner import Report, Way, run_jobs
from capax.sweep.spec import Experiment, Panel
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Trial

_RETRIES = 10
"""Times Ray starts a chunk again after the death of its worker or node."""
_FITS = 16  # trials per task of a learner that is fitted: a process of its own must start first
_AHEAD = 4  # tasks per core, or per GPU, that are in flight
_GLANCE = 0.5  # seconds after which a cluster that is called off hears of it


def run_on_ray(
    experiment: Experiment,
    store: Store,
    *,
    address: str | None = None,
    report: Report | None = None,
    chunk: int | None = None,
) -> Status:
    """Train what the store does not have yet on the cluster at `address` (a local one if None).

    `chunk`: trials per task; by default a GPU gets a whole round, a core a few trials.
    Raises `InputError` when Ray is not installed or the cluster cannot be reached.
    """
    check_experiment(experiment)
    return run_jobs(jobs_of(experiment, store), store, on_ray(address, chunk), report=report)


def run_chunk(panel: Panel, T: int, trials: list[Trial]) -> list[Outcome]:
    """What a worker does: train these trials and hand back how they ended."""
    family = family_of(panel)
    if isinstance(family, PlainFamily):
        family = family.with_workers(1)  # a task has one core
    return list(family.learner(panel, T)(iter(trials)))


def on_ray(address: str | None = None, chunk: int | None = None) -> Way:
    """Jobs on the cluster at `address`. Raises `InputError` as `run_on_ray` does."""
    ray = _connected(address)
    on_gpu = ray.cluster_resources().get("GPU", 0) >= 1
    resources = {"num_gpus": 1} if on_gpu else {"num_cpus": 1}
    task = ray.remote(max_retries=_RETRIES, **resources)(run_chunk)

    most = _AHEAD * max(1, int(ray.cluster_resources().get("GPU" if on_gpu else "CPU", 1)))

    def outcomes(jobs: Sequence[Job], should_stop: ShouldStop) -> Iterator[Outcome]:
        """Keep some tasks per core waiting, in the order of the jobs; take them in as they come."""
        running: dict[Any, Job] = {}

        def submit() -> None:
            for job in jobs:
                size = chunk or (1024 if on_gpu else _FITS if _is_fitted(job) else 2)
                while len(running) < most and (trials := list(islice(iter(job.take, None), size))):
                    running[task.remote(job.panel, job.T, trials)] = job

        submit()
        while running and not should_stop():
            ready, _ = _heard(ray, ray.wait, list(running), num_returns=1, timeout=_GLANCE)
            for reference in ready:
                job = running.pop(reference)
                for outcome in _heard(ray, ray.get, reference):
                    job.record(outcome)
                    yield outcome
            submit()

    return outcomes


def _is_fitted(job: Job) -> bool:
    return isinstance(job.family, PlainFamily)


def _heard(ray: Any, ask: Any, *arguments: Any, **settings: Any) -> Any:
    """The answer of the cluster. Raises what a task raised, or `InfeasibleError` if none comes."""
    try:
        return ask(*arguments, **settings)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except (ray.exceptions.RayError, ConnectionError) as error:
        first = one_line(str(error), 120)
        raise InfeasibleError(
            f"--on ray: the cluster does not answer ({type(error).__name__}: {first}); finished "
            "trials are in the store, start it and run the same command again"
        ) from None


def _connected(address: str | None) -> Any:
    """The `ray` module, connected to a cluster."""
    try:
        import ray
    except ImportError:
        raise InputError(
            "--on ray: wanted the package ray, got none; pip install 'capax[ray]'"
        ) from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False)
        except (ConnectionError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise InputError(f"address: no Ray cluster at {address!r} ({first})") from None
    return ray
