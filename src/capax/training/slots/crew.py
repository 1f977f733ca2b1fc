"""The trials in work and the workers that train them.

On a GPU an idle slot trains a later restart of an open trial ahead of time: a chain of restarts
then takes as long as one restart. A trial still counts its restarts up to the first solved one;
later restarts leave their slots and are discarded, so its result is the same.
"""

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from capax.errors import InfeasibleError, require
from capax.training.alarm.live_file import LiveFile
from capax.training.programs.program import Program
from capax.training.programs.seeds import seed_after, training_for
from capax.training.programs.shape import check_fits, memory_of, program_of, with_rows
from capax.training.slots.drawing import in_background
from capax.training.slots.pools import Pools
from capax.training.slots.record import Leaving
from capax.training.slots.worker import Desk, Orders, WaitingRun, work
from capax.training.specs.hardware import Hardware
from capax.training.specs.run_results import RunResult, TrialResult
from capax.training.specs.trial_specs import TrialSpec

_AHEAD_BYTES = 1 << 28
_numbers = itertools.count()  # calls of `train`, in their order


@dataclass(frozen=True)
class Tally:
    """Counts of a call of `train` so far."""

    runs_done: int
    runs_solved: int
    runs_running: int
    trials_done: int
    steps_done: int
    seconds: float


@dataclass
class _Open:
    """An open trial: its training set, the number of started runs, the finished runs."""

    spec: TrialSpec
    training: Future
    pool: int  # the number of its validation set
    started: int = 0
    ahead: dict[int, RunResult] = field(default_factory=dict)  # finished before an earlier restart
    runs: list[RunResult] = field(default_factory=list)  # counted runs, without a gap

    @property
    def running(self) -> int:
        """Runs in a slot or waiting for one."""
        return self.started - len(self.runs) - len(self.ahead)

    @property
    def is_complete(self) -> bool:
        """Whether a run is solved, or all have failed."""
        solved = bool(self.runs) and self.runs[-1].outcome == "solved"
        return solved or len(self.runs) == self.spec.restarts

    def add(self, result: RunResult) -> list[RunResult]:
        """The runs that count from now on."""
        before = len(self.runs)
        self.ahead[result.spec.restart] = result
        while not self.is_complete and len(self.runs) in self.ahead:
            self.runs.append(self.ahead.pop(len(self.runs)))
        return self.runs[before:]


def _has_more(trial: _Open) -> bool:
    return trial.started < trial.spec.restarts


class Crew:
    """The workers of one call of `train`, started when the first trials are known."""

    def __init__(
        self,
        hardware: Hardware,
        keep: str,
        max_m: int,
        leaving: Leaving,
        examine_from: float,
        block: int = 0,
        progress: bool = False,
        live: LiveFile | None = None,
    ) -> None:
        self.block, self.progress, self.live = block, progress, live
        self.hardware, self.keep, self.max_m = hardware, keep, max_m
        self.leaving, self.examine_from = leaving, examine_from
        self.open_trials: dict[int, _Open] = {}
        self._number = next(_numbers)
        self._first: TrialSpec | None = None
        self._pools = Pools(self._in_background)
        self._program: Program | None = None
        self._desk = Desk()
        self._drawn: set[Future] = set()
        self._threads: list[threading.Thread] = []
        self._room = hardware.max_slots * len(hardware.worker_devices())
        self._ahead = 0
        self._began, self._count, self._running = time.perf_counter(), 0, 0
        self._done, self._solved, self._trials, self._steps = 0, 0, 0, 0

    def has_room(self) -> bool:
        """Whether a slot is free, or will be soon if there are many: its data is drawn ahead."""
        return len(self.open_trials) < self._room + self._ahead

    def submit(self, trial: TrialSpec) -> None:
        """Queue the first run of a trial."""
        self._first = self._first or trial
        bits = trial.task.alphabet == 2 or not self.progress
        require(bits, "measure_progress", "two symbols", trial.task.alphabet)
        most = 1 if self.progress or self._program is None else self._program.pools
        check_fits(trial, self._first, several_p=most > 1)
        pool = self._pools.number_of(trial.task, most)
        self._plan(trial)
        number, self._count = self._count, self._count + 1
        training = self._in_background(training_for, trial.run(0))
        self.open_trials[number] = _Open(trial, training, pool)
        self._start_run(number)

    def use_idle_slots(self) -> None:
        """Later restarts ahead of time, first of trials with the fewest current runs."""
        if not self.hardware.trains_ahead:
            return
        while self._running < self._room:
            waiting = [(t.running, n) for n, t in self.open_trials.items() if _has_more(t)]
            if not waiting:
                return
            self._start_run(min(waiting)[1])

    def next_event(self, check: Callable[[], None] | None = None) -> TrialResult | None:
        """Wait for a run to finish: the trial's result, or None if the trial continues.

        check: called regularly while no run finishes; its errors end the wait.
        """
        self._start()
        event = self._desk.next_event(check)
        if isinstance(event, BaseException):
            raise event
        job, result = event
        trial = self.open_trials.get(job.trial)
        if trial is None:  # a later restart of a trial that has its result
            return None
        if isinstance(result, InfeasibleError):
            self._close_trial(job.trial)
            return TrialResult(trial.spec.trial_id, trial.spec, False, (), reason=str(result))
        self._running -= 1
        counted = trial.add(result)
        self._done += len(counted)
        self._steps += sum(run.steps for run in counted)
        if not trial.is_complete:
            if trial.running == 0:
                self._start_run(job.trial)
            return None
        self._close_trial(job.trial)
        solved = trial.runs[-1].outcome == "solved"
        self._solved += solved
        return TrialResult(trial.spec.trial_id, trial.spec, solved, tuple(trial.runs))

    def _close_trial(self, number: int) -> None:
        self._running -= self.open_trials.pop(number).running
        self._desk.forget(number)
        self._trials += 1

    def _start_run(self, number: int) -> None:
        """Let a trial's next run wait for a slot while its data is made in the background.

        Threads serve a call in order, so a training set is begun before the seed that waits for it.
        """
        assert self._program is not None  # planned before the first run is queued
        trial = self.open_trials[number]
        run, ahead = trial.spec.run(trial.started), trial.running > 0
        trial.started, self._running = trial.started + 1, self._running + 1
        seed = self._in_background(seed_after, run, trial.training, self._program, trial.pool)
        self._desk.put(WaitingRun(number, run, trial.training, seed, trial.pool), ahead=ahead)

    def _in_background(self, work: Callable[..., Any], *arguments: Any) -> Future:
        future = in_background(self._number, partial(work, *arguments))
        self._drawn.add(future)
        future.add_done_callback(self._drawn.discard)
        return future

    def tally(self) -> Tally:
        """Counts so far."""
        seconds = time.perf_counter() - self._began
        running = len(self.open_trials)
        return Tally(self._done, self._solved, running, self._trials, self._steps, seconds)

    def close(self) -> None:
        """Stop the workers after the chunk they are in."""
        self._desk.close()
        for future in tuple(self._drawn):
            future.cancel()
        for thread in self._threads:
            thread.join()

    def _plan(self, trial: TrialSpec) -> None:
        """The memory is planned before programs are compiled or data is drawn."""
        program = self._program or program_of(trial, self.hardware, self.max_m, self.block)
        wider = with_rows(program, trial.task.m)
        if wider != self._program:
            slots = memory_of(wider, self.hardware).slots
            self._program = wider
            if not self._threads:
                self._room = slots * len(self.hardware.worker_devices())
                self._ahead = self._drawn_ahead(wider)

    def _drawn_ahead(self, program: Program) -> int:
        """Trials whose data may wait for a slot: drawn while programs are compiled, so that the
        threads of a device do not wait for it later. A CPU has no idle time."""
        if self.hardware.platform == "cpu":
            return 0
        return _AHEAD_BYTES // (program.rows * program.path.spec.T)

    def _start(self) -> None:
        if self._threads or self._program is None:
            return
        devices = self.hardware.worker_devices()
        each = -(-self._room // len(devices))
        wanted = -(-self._running // len(devices))
        width = self.hardware.slots or 1 << (wanted - 1).bit_length()
        width = min(each, width)
        orders = Orders(
            self._program,
            self._pools,
            self.hardware,
            width,
            self.keep,
            self.leaving,
            self.examine_from,
            self.progress,
            self.live,
        )
        self._room = width * len(devices)
        for device in devices:
            thread = threading.Thread(target=work, args=(orders, device, self._desk), daemon=True)
            thread.start()
            self._threads.append(thread)
