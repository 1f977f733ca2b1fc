"""The time that counts against the limit of a fit: a busy machine must not fail a learner.

A limit by the clock would make results depend on the load of the machine: a fit of a second, in the
queue behind a hundred others, ends after a minute. So while a process is ready to run, only its CPU
time counts; while it sleeps (waits, hangs), the clock counts. Only Linux distinguishes the two: on
other systems the clock always counts.
"""

import sys
import time

import psutil

_PATIENCE = 20  # seconds by the clock that count as at least one, so that every fit ends


class FitClock:
    """The clock of a process, from now on. Call `look` often: between two calls the process counts
    as either running or sleeping.

    After the process has ended, or if its state cannot be read, the clock counts.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._had = pid, 0.0
        self._began = self._clock = time.monotonic()
        self._cores, _ = self._now()

    def look(self) -> float:
        """The seconds that count up to now."""
        clock, (cores, wants_core) = time.monotonic(), self._now()
        passed, got = clock - self._clock, cores - self._cores
        self._had += min(passed, got) if wants_core else passed
        self._clock, self._cores = clock, cores
        return max(self._had, (clock - self._began) / _PATIENCE)

    def _now(self) -> tuple[float, bool]:
        """CPU seconds of all threads, and whether the process runs or waits for a core."""
        try:
            process = psutil.Process(self._pid)
            with process.oneshot():
                times, status = process.cpu_times(), process.status()
        except psutil.Error:
            return 0.0, False
        runs = status == psutil.STATUS_RUNNING and sys.platform == "linux"
        return times.user + times.system, runs
