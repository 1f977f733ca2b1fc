"""A worker: one thread, one device, some slots. It takes runs, trains them, returns results."""

import functools
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import jax
import numpy as np
from scipy.special import bdtrc  # scipy.stats takes most of a second to import

from capax.data.task import Training
from capax.errors import InfeasibleError
from capax.training.alarm.live_file import LiveFile
from capax.training.programs.program import SUBSET, Program
from capax.training.programs.seeds import Seed, seed_for
from capax.training.programs.shape import with_rows
from capax.training.slots.record import Leaving, Record
from capax.training.slots.slots import Slots
from capax.training.specs.hardware import Hardware
from capax.training.specs.run_results import RunResult
from capax.training.specs.trial_specs import RunSpec

Event = tuple["WaitingRun", RunResult | InfeasibleError] | BaseException
"""A finished run, a run that cannot have a training set, or the end of a worker."""


_GLANCE = 0.2  # seconds between two calls of `check` while no run finishes


@dataclass(frozen=True)
class WaitingRun:
    """A run that waits for a slot, the number of its trial, and its data, which is being made."""

    trial: int
    spec: RunSpec
    training: "Future[Training | None]"
    seed: "Future[Seed]"
    pool: int = 0  # the number of its validation set


@dataclass(frozen=True)
class Orders:
    """The fixed settings of a worker: the program, the validation sets, and the results to keep."""

    program: Program
    pools: Sequence[np.ndarray]
    hardware: Hardware
    width: int
    keep: str
    leaving: Leaving
    examine_from: float  # share right of the first rows that has the whole pool examined
    progress: bool = False  # measures of hidden progress are recorded
    live: LiveFile | None = None  # receives evaluations of current runs


class Desk:
    """Where workers take jobs and put results. `close` ends all workers."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._jobs: deque[WaitingRun] = deque()
        self._change = threading.Condition()
        self._closed = False
        self._forgotten: set[int] = set()

    def next_event(self, check: Callable[[], None] | None = None) -> Event:
        """Wait for the next event; `check` is called meanwhile."""
        if check is None:
            return self.events.get()
        while True:
            check()
            try:
                return self.events.get(timeout=_GLANCE)
            except queue.Empty:
                continue

    def put(self, job: WaitingRun, *, ahead: bool = False) -> None:
        """Let a job wait for a slot. A restart goes first, because others may have to follow it; a
        restart ahead of time, which may not be needed, goes last."""
        with self._change:
            first = job.spec.restart and not ahead
            (self._jobs.appendleft if first else self._jobs.append)(job)
            self._change.notify()

    def take(self, most: int, wait: bool) -> list[WaitingRun] | None:
        """Up to `most` jobs that can start at once; with `wait`, also jobs that are not ready.

        An idle worker waits until all jobs are ready; a worker that trains never waits.
        None when closed.
        """
        with self._change:
            while wait and not self._jobs and not self._closed:
                self._change.wait()
            if self._closed:
                return None
            taken = [job for job in self._jobs if wait or job.seed.done()][:most]
            for job in taken:
                self._jobs.remove(job)
            return taken

    def forget(self, trial: int) -> None:
        """Discard the runs of this trial: waiting ones are removed, others leave their slots."""
        with self._change:
            self._forgotten.add(trial)
            self._jobs = deque(job for job in self._jobs if job.trial != trial)

    def is_wanted(self, job: WaitingRun) -> bool:
        """Whether this job is still needed."""
        return job.trial not in self._forgotten

    def close(self) -> None:
        """No more jobs; workers leave after the chunk they are in."""
        with self._change:
            self._closed = True
            self._change.notify_all()


def work(orders: Orders, device: jax.Device, desk: Desk) -> None:
    """The loop of a worker thread."""
    try:
        _serve(orders, device, desk)
    except jax.errors.JaxRuntimeError as error:
        desk.events.put(_out_of_memory(error, orders) or error)
    except BaseException as error:
        desk.events.put(error)


def _out_of_memory(error: BaseException, orders: Orders) -> InfeasibleError | None:
    """The error for a device with less free memory than planned, in one line."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return None
    T, rows = orders.program.path.spec.T, orders.program.rows
    return InfeasibleError(
        f"memory: {orders.width} runs at once with T = {T}, m = {rows} do not fit on the device; "
        f"use fewer jobs at once, a smaller m, or a device without other programs"
    )


def _serve(orders: Orders, device: jax.Device, desk: Desk) -> None:
    slots: Slots | None = None
    active: dict[int, tuple[WaitingRun, Record]] = {}
    while True:
        jobs = desk.take(orders.width - len(active), wait=not active)
        if jobs is None:
            return
        if jobs:
            slots = _with_room(slots, orders, device, max(job.spec.task.m for job in jobs))
            _admit(jobs, slots, active, desk)
        if slots is not None and active:
            _advance(slots, active, orders)
            _retire(slots, active, orders, desk)


def _with_room(slots: Slots | None, orders: Orders, device: jax.Device, m: int) -> Slots:
    """Slots with room for m examples; a wider program takes the lanes over."""
    program = with_rows(slots.program if slots is not None else orders.program, m)
    if slots is not None and program == slots.program:
        return slots
    options = orders.hardware.compiler_options()
    wider = Slots(program, device, orders.width, orders.pools, options, orders.progress)
    if slots is not None:
        wider.take_over(slots)
    return wider


def _admit(
    jobs: list[WaitingRun], slots: Slots, active: dict[int, tuple[WaitingRun, Record]], desk: Desk
) -> None:
    """Start jobs in free slots; a job without a possible training set is returned unsolved."""
    free = (slot for slot in range(slots.width) if slot not in active)
    seeds = {}
    for job in jobs:
        try:
            seed = job.seed.result()
        except InfeasibleError as error:
            desk.events.put((job, error))
            continue
        if len(seed[0].data.y) not in (0, slots.program.rows):  # the program has grown meanwhile
            seed = seed_for(job.spec, job.training.result(), slots.program, job.pool)
        seeds[next(free)] = seed, job
    for slot, (_, job) in seeds.items():
        active[slot] = (job, Record(job.spec))
    if seeds:
        slots.admit({slot: seed for slot, (seed, _) in seeds.items()})


@functools.lru_cache(maxsize=64)
def _rows_wrong(accuracy: float) -> int:
    """Largest number of wrong answers among `SUBSET` random rows of a set with at least this
    accuracy, except with a chance below 1e-12."""
    chance_of_more = bdtrc(np.arange(SUBSET), SUBSET, 1.0 - accuracy)
    return int(np.argmax(chance_of_more <= 1e-12)) if accuracy < 1 else 0


def may_succeed_from(spec: RunSpec) -> float:
    """The share of right first rows at which the whole set may meet the success rule."""
    return 1.0 - _rows_wrong(spec.success.accuracy) / SUBSET


def _advance(slots: Slots, active: dict[int, tuple[WaitingRun, Record]], orders: Orders) -> None:
    """One chunk for all slots; the whole pool only for slots with a good enough first part."""
    measured = slots.advance(active)
    n = slots.program.validation_rows
    part = min(SUBSET, n)
    correct, mass = measured.correct.astype(np.int64), measured.mass.astype(np.float64)
    seen = np.full(slots.width, part)
    chosen = [
        i
        for i, (job, _) in active.items()
        if n > part and correct[i] >= min(orders.examine_from, may_succeed_from(job.spec)) * part
    ]
    if chosen:
        correct[chosen], mass[chosen] = slots.examine(chosen)
        seen[chosen] = n
    progress = slots.progress().tolist() if orders.progress else [()] * slots.width
    for i, (_, record) in active.items():
        share = correct[i] / seen[i]
        loss, train = float(measured.loss[i]), float(measured.train_accuracy[i])
        record.add(loss, train, float(share), int(seen[i]), float(mass[i]), progress[i])


def _retire(
    slots: Slots, active: dict[int, tuple[WaitingRun, Record]], orders: Orders, desk: Desk
) -> None:
    for slot, (job, record) in list(active.items()):
        if not desk.is_wanted(job):
            del active[slot]
            continue
        if orders.keep == "best" and record.improved():
            record.best = (record.rows[-1][3], slots.model(slot))
        is_over = record.over(orders.leaving)
        if orders.live is not None:
            orders.live.look(job.spec, record.rows[-1], is_over)
        if is_over:
            final = slots.model(slot) if orders.keep == "final" else record.best[1]
            del active[slot]
            desk.events.put((job, record.result(slots.program.path, final)))
