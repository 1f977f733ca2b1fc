"""Run a sweep on a Ray cluster: chunks of trials are Ray tasks, this process is the only writer.

Ray does the scheduling: it places tasks where a GPU (or a core) is free, and runs a task again
when its worker or node dies. A chunk is a pure function of its trials, so a second run gives the
same outcomes; a death only delays its chunk.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar, runtime_checkable

from capax.errors import InputError
from capax.sweep.families import family_of
from capax.sweep.running.job import Status
from capax.sweep.running.runner import Report, drive
from capax.sweep.spec import Experiment, Panel
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Trial

_RETRIES = 10
"""Times Ray starts a chunk again after the death of its worker or node."""


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
    cluster = Cluster(run_chunk, address, chunk)
    return drive(
        experiment, store, lambda jobs: cluster.outcomes(jobs, lambda j: (j.panel, j.T)), report
    )


def run_chunk(panel: Panel, T: int, trials: list[Trial]) -> list[Outcome]:
    """What a worker does: train these trials and hand back how they ended."""
    learner = family_of(panel).learner(panel, T)
    return list(learner(iter(trials)))


@runtime_checkable
class Source(Protocol):
    """What asks for trials and takes in how they ended: a job of a sweep, or of a card."""

    def take(self) -> Trial | None:
        """The next trial; None while results are awaited."""
        ...

    def record(self, outcome: Outcome) -> None:
        """How a trial ended that was taken."""
        ...


S = TypeVar("S", bound=Source)


class Cluster:
    """Chunks of trials as Ray tasks: `function(*settings, trials)` on a worker."""

    def __init__(
        self, function: Callable[..., list[Outcome]], address: str | None, chunk: int | None = None
    ) -> None:
        self._ray = _connected(address)
        on_gpu = self._ray.cluster_resources().get("GPU", 0) >= 1
        resources = {"num_gpus": 1} if on_gpu else {"num_cpus": 1}
        self._task = self._ray.remote(max_retries=_RETRIES, **resources)(function)
        self._size = chunk or (1024 if on_gpu else 2)

    def outcomes(
        self,
        jobs: Sequence[S],
        settings: Callable[[S], tuple[Any, ...]],
        size: Callable[[S], int | None] = lambda _: None,
    ) -> Iterator[Outcome]:
        """Submit every round of every job at once, and take chunks in as they come."""
        running: dict[Any, S] = {}

        def submit(job: S) -> None:
            while trials := list(islice(iter(job.take, None), size(job) or self._size)):
                running[self._task.remote(*settings(job), trials)] = job

        for job in jobs:
            submit(job)
        while running:
            ready, _ = self._ray.wait(list(running), num_returns=1)
            job = running.pop(ready[0])
            for outcome in _result(self._ray, ready[0]):
                job.record(outcome)
                yield outcome
            submit(job)


def _result(ray: Any, reference: Any) -> list[Outcome]:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None


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
