"""Fits in processes, as many at once as there are cores; the first fit is done twice."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from typing import Any

import psutil

from capax.learners.fitting import Attempt
from capax.learners.isolation import Isolated
from capax.learners.names import Entry
from capax.machine import num_cores
from capax.sweep.families.plain_fits import Attempter, compare, first_fit, outcome_of
from capax.sweep.trial import Outcome, Supply, Trial

_END = object()
_GLANCE = 0.2  # seconds between checks whether the work was cancelled


def check_of(trials: Iterator[Trial | None]) -> Callable[[], None]:
    return trials.check if isinstance(trials, Supply) else lambda: None


class FitPool:
    """Workshops, and threads that wait for them."""

    def __init__(self, entry: Entry, memory_gb: float | None, workers: int | None) -> None:
        self.size = workers or num_cores()
        free = psutil.virtual_memory().available
        memory = int(memory_gb * 2**30) if memory_gb else int(0.8 * free / self.size)
        self._free: SimpleQueue[Isolated] = SimpleQueue()
        self._all = [
            Isolated(entry.reference, seconds=60.0, memory_bytes=memory) for _ in range(self.size)
        ]
        for workshop in self._all:
            self._free.put(workshop)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="capax-fit")

    def __enter__(self) -> "FitPool":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for workshop in self._all:
            workshop.close()

    def submit(self, trial: Trial, made: list[Attempt] | None = None) -> "Future[Outcome]":
        """Start a trial; its fits are added to `made`."""
        return self._threads.submit(self._work, trial, partial(outcome_of, made=made))

    def submit_first_fit(self, trial: Trial) -> "Future[Attempt]":
        """Start the first fit of a trial alone."""
        return self._threads.submit(self._work, trial, first_fit)

    def _work(self, trial: Trial, work: Callable[[Trial, Attempter], Any]) -> Any:
        workshop = self._free.get()
        workshop.seconds = trial.spec.time_limit
        try:
            return work(trial, workshop.attempt)
        finally:
            self._free.put(workshop)


_kept: dict[tuple[object, ...], FitPool] = {}
"""The pool that this process keeps between calls: at most one."""


def kept_pool(entry: Entry, memory_gb: float | None, workers: int) -> tuple[FitPool, bool]:
    """The open pool of this learner from an earlier call, or a new one, and whether it is new.

    For processes that receive the trials of a sweep in many small parts: importing a library for
    every part would take longer than its fits. The pool of another learner is closed.
    """
    name = (entry.reference, entry.source, memory_gb, workers)
    if name in _kept:
        return _kept[name], False
    while _kept:
        _kept.popitem()[1].__exit__()
    _kept[name] = FitPool(entry, memory_gb, workers)
    return _kept[name], True


class _Twice:
    """The first trial, with its first fit done a second time in parallel."""

    def __init__(self, trial: Trial, pool: FitPool) -> None:
        self._trial, self._made = trial, []
        self.outcome = pool.submit(trial, self._made)
        self.again = pool.submit_first_fit(trial)

    def compared(self) -> bool:
        """Whether both fits are done. Raises `InputError` if their answers differ."""
        if not (self.outcome.done() and self.again.done()):
            return False
        if self._made:
            compare(self._trial, self._made[0], self.again.result())
        return True


def drive(trials: Iterator[Trial | None], pool: FitPool, strict: bool) -> Iterator[Outcome]:
    """Outcomes as they arrive, but not before the learner is known to be deterministic."""
    running: set[Future[Any]] = set()
    exhausted, check = False, check_of(trials)
    twice: _Twice | None = None
    held: list[Outcome] = []
    while True:
        while not exhausted and len(running) < pool.size:
            trial = next(trials, _END)
            exhausted = trial is _END
            if not isinstance(trial, Trial):
                break
            if strict:
                strict, twice = False, _Twice(trial, pool)
                running |= {twice.outcome, twice.again}
            else:
                running.add(pool.submit(trial))
        if running:
            finished, running = wait(running, _GLANCE, return_when=FIRST_COMPLETED)
            held += [f.result() for f in finished if twice is None or f is not twice.again]
            if twice is not None and twice.compared():
                twice = None
            if twice is None:
                yield from held
                held.clear()
            check()
        elif exhausted:
            return
        else:
            time.sleep(0.01)
