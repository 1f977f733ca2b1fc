"""Run jobs on this machine: one after the other or a few at once, one writer.

While one T trains, the programs of the next are compiled in the background. With several jobs at
once, each in a thread, another job fills the idle time at the end of a round; the memory must be
enough for all of them. Only the calling thread writes to the store. Results do not change.
"""

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from capax.machine import num_cores
from capax.sweep.experiments.spec import Experiment
from capax.sweep.families.known_families import check_experiment
from capax.sweep.running.apart import Others, outcomes_apart
from capax.sweep.running.job import Job, ShouldStop, Status, jobs_of, status_of
from capax.sweep.running.question import Question
from capax.sweep.running.sharing import Shares, multi_process_service
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Stopped

Report = Callable[[Status], None]
Way = Callable[[Sequence[Job], ShouldStop], Iterator[Outcome]]
"""A way to train jobs: yields the outcomes of all of them as they arrive."""
R = TypeVar("R")


def run_sweep(
    experiment: Experiment,
    store: Store,
    *,
    jobs_at_once: int = 1,
    in_processes: bool = False,
    report: Report | None = None,
) -> Status:
    """Train the missing trials of the store; every finished trial is written at once.

    in_processes: every job in a separate process (`capax.sweep.running.apart`).
    """
    check_experiment(experiment)
    jobs = jobs_of(experiment, store)
    if in_processes:
        return run_jobs(jobs, store, in_other_processes(jobs_at_once, store), report=report)
    with watched(jobs, store):
        return run_jobs(jobs, store, in_threads(jobs_at_once), report=report)


@contextmanager
def watched(jobs: Sequence[Job], store: Store) -> Iterator[None]:
    """Write evaluations of current runs beside the store if jobs record progress."""
    measured = [job for job in jobs if job.panel.measures_progress and not job.finished]
    if not measured:
        yield
        return
    from capax.training.alarm.live_file import LiveFile, live_path  # loads JAX

    live = LiveFile(live_path(store.path))
    for job in measured:
        job.live = live
    try:
        yield
    finally:
        live.close()


def run_jobs(
    jobs: Sequence[Job],
    store: Store,
    way: Way,
    *,
    report: Report | None = None,
    minutes: float | None = None,
) -> Status:
    """Write outcomes as they arrive: the same for a sweep and a card, one machine and many.

    minutes: after this time the training is cancelled; finished trials are stored.
    """
    end = None if minutes is None else time.monotonic() + 60 * minutes
    books = Books(jobs, store, report)
    books.tell()
    for outcome in way(books.waiting, lambda: end is not None and time.monotonic() > end):
        books.add(outcome)
    return books.close()


def in_threads(at_once: int) -> Way:
    """Jobs in threads of this process."""

    def outcomes(jobs: Sequence[Job], should_stop: ShouldStop) -> Iterator[Outcome]:
        with short_turns(), preparing([job.prepare for job in jobs]):
            yield from concurrently([job.outcomes for job in jobs], at_once, should_stop)

    return outcomes


def in_other_processes(at_once: int, store: Store) -> Way:
    """Jobs in other processes, if they can travel; the store gets the device of the process."""

    def outcomes(jobs: Sequence[Job], should_stop: ShouldStop) -> Iterator[Outcome]:
        places = max(1, min(at_once, len(jobs)))  # a share of the machine for each
        with multi_process_service() as shared, Others() as others:
            shares = Shares([job.T for job in jobs], places, shared)
            heard = partial(setattr, store, "device")
            works = [
                partial(outcomes_apart, job, shares, heard, others=others)
                if job.travels
                else job.outcomes
                for job in jobs
            ]
            yield from concurrently(works, places, should_stop)

    return outcomes


class Books:
    """Jobs and the store that their outcomes go to."""

    def __init__(self, jobs: Sequence[Job], store: Store, report: Report | None = None) -> None:
        self._jobs, self._store, self._report = jobs, store, report or (lambda _: None)
        self._questions = [question for job in jobs for question in job.questions]
        self._at = {(name, q.T): q for q in self._questions for name in q.names}
        self._runs = store.select("SELECT count(*) AS runs FROM runs")[0]["runs"]
        self._close_all()

    @property
    def waiting(self) -> list[Job]:
        """The jobs that are not finished."""
        return [job for job in self._jobs if not job.finished]

    @property
    def status(self) -> Status:
        """The progress of the jobs."""
        return status_of(self._questions, self._runs)

    def tell(self) -> None:
        """Report the progress of the jobs."""
        self._report(self.status)

    def add(self, outcome: Outcome) -> None:
        """Write an outcome."""
        question = self._at[outcome.trial.panel, outcome.trial.T]
        self._store.add(outcome)
        question.written += 1
        _close(self._store, question)
        self.tell()

    def close(self) -> Status:
        """Record why questions ended without further trials."""
        self._close_all()
        return self.status

    def _close_all(self) -> None:
        for question in self._questions:
            _close(self._store, question)


def _close(store: Store, question: Question) -> None:
    """Store that a question is over, or why it stopped; once, and after its last trial."""
    if question.is_written and not question.closed:
        at, note = (question.panel.name, question.T), question.note
        store.close_job(*at, finished=question.finished, note=note)
        question.closed = True


_TURN = 5e-4


@contextmanager
def short_turns() -> Iterator[None]:
    """Switch threads after half a millisecond instead of five.

    A worker returns from its device many times per chunk, and each time waits for threads that draw
    data or trace programs; meanwhile the device is idle.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def preparing(prepare: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Prepare jobs in their order; an error here is ignored, because the job will raise it again.

    This includes the first jobs: their programs are compiled before all others, while they draw
    their data. An interrupted sweep closes its store at once, without waiting for compilations.
    """
    pool = ThreadPoolExecutor(max(1, min(4, num_cores() // 4)), thread_name_prefix="prepare")
    try:
        for step in prepare:
            pool.submit(step)
        yield
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def concurrently(
    works: Sequence[Callable[[ShouldStop], Iterator[R]]],
    at_once: int,
    should_stop: ShouldStop = lambda: False,
) -> Iterator[R]:
    """Results of all works as they arrive, `at_once` works at a time. The first error ends it.

    A work is a function that takes a stop signal and yields results.
    """
    if at_once == 1:
        with suppress(Stopped):
            for work in works:
                yield from work(should_stop)
        return
    events: queue.Queue[R | BaseException | None] = queue.Queue()
    stop = threading.Event()

    def is_over() -> bool:
        return stop.is_set() or should_stop()

    def run(work: Callable[[ShouldStop], Iterator[R]]) -> None:
        try:
            for result in work(is_over):
                events.put(result)
                if stop.is_set():
                    break
            events.put(None)
        except Stopped:
            events.put(None)
        except BaseException as error:
            events.put(error)

    pool = ThreadPoolExecutor(at_once, thread_name_prefix="job")
    try:
        for work in works:
            pool.submit(run, work)
        yield from _until_all_done(events, len(works))
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
