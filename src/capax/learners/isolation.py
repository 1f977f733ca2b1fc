"""A separate process for the user's code, with a time limit and a memory limit.

The parent process talks to `python -m capax.learners.workshop REFERENCE` over two pipes: a line of
JSON, then raw bytes. No pickle, no fork, and the user's script is not run a second time. A process
(called workshop here) that exceeds its limits is killed; the next fit gets a new one.
"""

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict
from typing import IO, Any

import numpy as np
import psutil

from capax.learners.fit_clock import FitClock
from capax.learners.fitting import Attempt
from capax.learners.setting import Setting

_GLANCE = 0.1  # seconds between looks at the memory of a busy workshop
_START = 120.0  # seconds a workshop may take to import what the learner needs


class Isolated:
    """Fits of one learner in a process that can be killed. Close it, or use it as a context."""

    def __init__(self, reference: str, *, seconds: float, memory_bytes: int) -> None:
        self._reference = reference
        self.seconds, self._memory = seconds, memory_bytes
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Isolated":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def attempt(
        self, setting: Setting, X: np.ndarray, y: np.ndarray, inputs: np.ndarray, key: int
    ) -> Attempt:
        """`fitting.attempt` in the workshop, which is killed if it exceeds a limit."""
        began = time.perf_counter()
        try:
            self._ask(setting, X, y, inputs, key)
            head, body = self._answer()
        except _Overrun as overrun:
            self.close()
            return Attempt(reason=str(overrun), seconds=time.perf_counter() - began)
        if self._resident() > self._memory // 2:
            self.close()  # it did not release its memory
        answers = np.frombuffer(body, np.bool_).reshape(head["shape"])
        return Attempt(answers, head["reason"], head["diverged"], head["seconds"])

    def close(self) -> None:
        """End the workshop, also during a fit."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _ask(
        self, setting: Setting, X: np.ndarray, y: np.ndarray, inputs: np.ndarray, key: int
    ) -> None:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = _started(self._reference)
            self._wait(_START, "to start")
            _read(self._pipe)
        head = {"setting": asdict(setting), "m": len(X), "n": len(inputs), "key": key}
        rows = (np.ascontiguousarray(a, np.uint8).tobytes() for a in (X, y, inputs))
        try:
            _write(self._process.stdin, head, b"".join(rows))
        except OSError:
            raise _Overrun(self._died()) from None

    def _answer(self) -> tuple[dict[str, Any], bytes]:
        self._wait(self.seconds, "for one fit")
        try:
            return _read(self._pipe)
        except (ValueError, EOFError):
            raise _Overrun(self._died()) from None

    @property
    def _workshop(self) -> Any:
        """The process, started by the first fit."""
        assert self._process is not None
        return self._process

    @property
    def _pipe(self) -> IO[bytes]:
        return self._workshop.stdout

    def _wait(self, seconds: float, what: str) -> None:
        """Wait until data can be read. Raises `_Overrun` past a limit or when the process died."""
        watch = FitClock(self._workshop.pid)
        while not select.select([self._pipe], [], [], _GLANCE)[0]:
            if watch.look() > seconds:
                raise _Overrun(f"took more than the time limit of {seconds:g} s {what}")
            if self._resident() > self._memory:
                limit = self._memory / 2**30
                raise _Overrun(f"took more than the memory limit of {limit:.3g} GiB")

    def _resident(self) -> int:
        try:
            return psutil.Process(self._workshop.pid).memory_info().rss
        except psutil.Error:
            return 0

    def _died(self) -> str:
        code = self._workshop.wait()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"its process ended without an answer ({how})"


class _Overrun(Exception):
    """A limit was passed or the process died; the message is the reason."""


def _started(reference: str) -> "subprocess.Popen[bytes]":
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.Popen(
        [sys.executable, "-m", "capax.learners.workshop", reference],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal that the learner sends to its group must not reach Capax
        env={**os.environ, **threads, "JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": "0"},
    )


def _write(pipe: IO[bytes] | None, head: dict[str, Any], body: bytes) -> None:
    assert pipe is not None
    pipe.write(json.dumps({**head, "bytes": len(body)}).encode() + b"\n" + body)
    pipe.flush()


def _read(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    line = pipe.readline()
    if not line:
        raise EOFError
    head = json.loads(line)
    return head, pipe.read(head["bytes"])
