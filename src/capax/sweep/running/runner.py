"""Run a sweep on this machine: jobs one after the other or a few at once, one writer.

While one T trains, the programs of the next are compiled in the background. With several jobs at
once, each in a thread, the gaps at the end of one job's round are filled by another; memory must
do for all of them. Only the calling thread touches the store. None of this changes a result.
"""

import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

from capax.machine import num_cores
from capax.sweep.families import check_experiment
from capax.sweep.running.job import Job, Status, Stopped, Tally, jobs_of
from capax.sweep.spec import Experiment
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome

Report = Callable[[Status], None]
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


@runtime_checkable
class Prepared(Protocol):
    """What can be made ready before it is its turn."""

    def prepare(self) -> None:
        """What can be done ahead, in another thread."""
        ...


@runtime_checkable
class Work(Prepared, Protocol[R_co]):
    """What can be trained beside other work: a job, or whatever else yields outcomes."""

    def outcomes(self, should_stop: Callable[[], bool] = ..., /) -> Iterator[R_co]:
        """Train; every outcome as soon as it is known."""
        ...


def run_sweep(
    experiment: Experiment,
    store: Store,
    *,
    jobs_at_once: int = 1,
    in_processes: bool = False,
    report: Report | None = None,
) -> Status:
    """Train what the store does not have yet; every finished trial is written at once.

    in_processes: every job in a process of its own (`capax.sweep.running.apart`).
    """

    def in_threads(jobs: list[Job]) -> Iterator[Outcome]:
        with short_turns(), preparing(jobs):
            yield from concurrently(jobs, jobs_at_once)

    def apart(jobs: list[Job]) -> Iterator[Outcome]:
        from capax.sweep.running.apart import JobApart
        from capax.sweep.running.sharing import Places, multi_process_service

        with multi_process_service() as shared:
            places = Places([job.T for job in jobs], jobs_at_once, shared)
            heard = partial(setattr, store, "device")
            apart_jobs = [JobApart(job, places, heard) for job in jobs]
            yield from concurrently(apart_jobs, jobs_at_once)

    return drive(experiment, store, apart if in_processes else in_threads, report)


def drive(
    experiment: Experiment,
    store: Store,
    outcomes_of: Callable[[list[Job]], Iterator[Outcome]],
    report: Report | None = None,
) -> Status:
    """Check, resume, and write outcomes as they come in: the same for one machine and for many."""
    books = Books(experiment, store, report)
    books.tell()
    for outcome in outcomes_of(books.waiting):
        books.add(outcome)
    return books.close()


class Books:
    """One experiment, its jobs and its store. Raises `InputError` for impossible settings."""

    def __init__(self, experiment: Experiment, store: Store, report: Report | None = None) -> None:
        check_experiment(experiment)
        self._store, self._report = store, report or (lambda _: None)
        self._jobs = jobs_of(experiment, store)
        self._at = {(job.panel.name, job.T): job for job in self._jobs}
        runs = store.select("SELECT count(*) AS runs FROM runs")[0]["runs"]
        self._tally = Tally(self._jobs, runs)
        for job in self._jobs:
            _close(store, job)

    @property
    def waiting(self) -> list[Job]:
        """The jobs that are not finished."""
        return [job for job in self._jobs if not job.finished]

    def tell(self) -> None:
        """Report where the sweep stands."""
        self._report(self._tally.status())

    def add(self, outcome: Outcome) -> None:
        """Write an outcome."""
        job = self._at[outcome.trial.panel, outcome.trial.T]
        self._store.add(outcome)
        job.written += 1
        _close(self._store, job)
        self.tell()

    def close(self) -> Status:
        """Write why jobs ended that yielded nothing more."""
        for job in self._jobs:
            _close(self._store, job)
        return self._tally.status()


def _close(store: Store, job: Job) -> None:
    """Write down that a job is over, or why it stopped; once, and after its last trial."""
    if job.is_written and not job.closed:
        store.close_job(job.panel.name, job.T, finished=job.finished, note=job.note)
        job.closed = True


_TURN = 5e-4


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads hand the interpreter on after half a millisecond instead of five.

    A worker comes back from its device many times a chunk, and each time waits for its turn behind
    threads that draw data or trace programs; meanwhile the device stands idle.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def preparing(jobs: Sequence["Prepared"]) -> Iterator[None]:
    """Prepare jobs in their order; what fails here will fail, and say so, in the job.

    Also the first ones: their programs come before all others, and are compiled while they draw
    their data. Nobody waits for a compilation that is no longer wanted: an interrupted sweep closes
    its store at once.
    """
    pool = ThreadPoolExecutor(max(1, min(4, num_cores() // 4)), thread_name_prefix="prepare")
    try:
        for job in jobs:
            pool.submit(job.prepare)
        yield
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def concurrently(jobs: Sequence["Work[R]"], at_once: int) -> Iterator[R]:
    """Outcomes of all jobs as they come, `at_once` jobs in work. The first error ends it."""
    if at_once == 1:
        for job in jobs:
            yield from job.outcomes()
        return
    events: queue.Queue[R | BaseException | None] = queue.Queue()
    stop = threading.Event()

    def work(job: Work[R]) -> None:
        try:
            for outcome in job.outcomes(stop.is_set):
                events.put(outcome)
                if stop.is_set():
                    break
            events.put(None)
        except Stopped:
            events.put(None)
        except BaseException as error:
            events.put(error)

    pool = ThreadPoolExecutor(at_once, thread_name_prefix="job")
    try:
        for job in jobs:
            pool.submit(work, job)
        yield from _until_all_done(events, len(jobs))
    finally:
        stop.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _until_all_done(events: "queue.Queue[R | BaseException | None]", num_jobs: int) -> Iterator[R]:
    while num_jobs:
        event = events.get()
        if event is None:
            num_jobs -= 1
        elif isinstance(event, BaseException):
            raise event
        else:
            yield event
