"""A learner in a separate process: trials are sent as lines of JSON, outcomes are received so.

Several T in one process share one interpreter, which traces and draws for all of them, and one
queue of a GPU, where a short kernel waits for a long one. Separate processes do not. The outcome of
a trial depends on its spec alone, up to the rounding of the cores; the sweep is still the only
writer, and no outcome is lost with a process that dies. No pickle: panels and runs are plain data.
A process whose job is finished waits for the next one on the same cores: starting Python and JAX
takes three seconds of a core.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from capax.errors import InfeasibleError, InputError
from capax.foreign import one_line
from capax.sweep.experiments.spec import Panel
from capax.sweep.running.job import Job, ShouldStop
from capax.sweep.running.sharing import Share, Shares
from capax.sweep.trial import Outcome, Run, Supply, Trial

_COMMAND = (sys.executable, "-m", "capax.sweep.running.other_end")
_FAREWELL = 60.0  # seconds that a process may take to finish its chunk
_GLANCE = 0.2  # seconds between checks whether the sweep must stop
_END = object()
Message = dict[str, Any]


def outcomes_apart(
    job: Job,
    shares: Shares,
    heard: Callable[[str], None],
    should_stop: ShouldStop,
    others: "Others | None" = None,
) -> Iterator[Outcome]:
    """The outcomes of a job whose learner is another process."""
    with shares.one(job.T) as share:
        learner = LearnerApart(job.panel, job.T, share, heard, job.panel_of, others)
        yield from job.outcomes(should_stop, learner)


class LearnerApart:
    """The learner of a panel at one T, in another process. `heard` receives its device.

    panel_of: the settings of a trial, which may differ from `panel` in the rate. others: processes
    to choose from; without them a new process is started, which ends with the job.
    """

    def __init__(
        self,
        panel: Panel,
        T: int,
        share: Share,
        heard: Callable[[str], None] = lambda _: None,
        panel_of: Callable[[Trial], Panel] | None = None,
        others: "Others | None" = None,
    ) -> None:
        self._panel, self._T, self._share, self._heard = panel, T, share, heard
        self._others = others
        self._panel_of = panel_of or (lambda _: panel)

    def __call__(self, trials: Iterator[Trial | None]) -> Iterator[Outcome]:
        """Pass on every available trial; yield outcomes as they arrive."""
        waiting: dict[str, Trial] = {}
        with one_of(self._others, self._panel, self._T, self._share) as other:
            exhausted = False
            while waiting or not exhausted:
                pausing = False
                while not exhausted and not pausing:
                    trial = next(trials, _END)
                    exhausted, pausing = trial is _END, trial is None
                    if isinstance(trial, Trial):
                        waiting[trial.trial_id] = trial
                        other.tell({"m": trial.m, "index": trial.index, **self._more(trial)})
                if not waiting:
                    time.sleep(0.01)  # the source has nothing yet, and no result is on its way
                elif (message := other.hear()) is None:
                    if isinstance(trials, Supply):
                        trials.check()
                elif "device" in message:
                    self._heard(message["device"])
                else:
                    yield _outcome(waiting.pop(message["trial"]), message)

    def _more(self, trial: Trial) -> Message:
        panel = self._panel_of(trial)
        return {} if panel == self._panel else {"panel": panel.model_dump(mode="json")}


class Others:
    """Processes that have finished a job and wait for the next one with the same share."""

    def __init__(self) -> None:
        self._waiting: list[_Other] = []
        self._lock = threading.Lock()

    def __enter__(self) -> "Others":
        return self

    def __exit__(self, *_: object) -> None:
        while self._waiting:
            self._waiting.pop().close()

    def take(self, share: Share) -> "_Other | None":
        """A living process with this share that waits, if any."""
        with self._lock:
            fitting = [other for other in self._waiting if other.fits(share)]
            for other in fitting[:1]:
                self._waiting.remove(other)
        return fitting[0] if fitting else None

    def put(self, other: "_Other") -> None:
        """Let a process wait."""
        with self._lock:
            self._waiting.append(other)


@contextmanager
def one_of(others: Others | None, panel: Panel, T: int, share: Share) -> "Iterator[_Other]":
    """A process for a job: a waiting one, or a new one. It waits again after the job."""
    waiting = None if others is None else others.take(share)
    other = _Other(share) if waiting is None else waiting
    other.begin(panel, T)
    try:
        yield other
    except BaseException:
        other.close()
        raise
    if others is None or share.settings:  # a part of a GPU's memory is for one job
        other.close()
    else:
        others.put(other)


class _Other:
    """Another process: receives trials, returns outcomes."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False

    def fits(self, share: Share) -> bool:
        """Whether it is alive and has this share."""
        lives = self._process is not None and self._process.poll() is None
        return lives and self._share == share

    def begin(self, panel: Panel, T: int) -> None:
        """A new job; the process is started for the first one."""
        self._T = T
        head = {"panel": panel.model_dump(mode="json"), "T": T}
        if self._process is not None:
            self.tell(head)
            return
        self._said = [json.dumps(head)]
        self._start()

    def close(self) -> None:
        """Ask the process to finish its chunk and exit; kill it only if it does not."""
        assert self._process is not None
        _closed(self._process.stdin)
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _closed(self._process.stdout)
        _closed(self._errors)

    def tell(self, message: Message) -> None:
        """Send a line, and keep it until the process is known to work."""
        line = json.dumps(message)
        if not self._is_ready:
            self._said.append(line)
        self._send(line)

    def hear(self) -> Message | None:
        """The next message, or None after a short wait. Raises the errors of the other process."""
        try:
            line = self._heard.get(timeout=_GLANCE)
        except queue.Empty:
            return None
        if not line:
            self._after_death()
            return None
        message = json.loads(line)
        if "device" in message:  # the first message
            self._is_ready = True
            self._said.clear()
        for name, kind in _RAISED.items():
            if name in message:
                raise kind(message[name])
        return message

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            [*_COMMAND, *map(str, self._share.cores)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **self._share.settings},
        )
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        listening = (self._process.stdout, self._heard)
        threading.Thread(target=_listen, args=listening, daemon=True).start()
        for line in self._said:
            self._send(line)

    def _send(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process is dead: `hear` raises the error
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def _after_death(self) -> None:
        """Restart without the multi-process service if the process never worked with it."""
        assert self._process is not None
        code = self._process.wait()
        if not self._is_ready and self._share.alone != self._share:
            self.close()
            self._share = self._share.alone
            self._start()
            return
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        said = f": {one_line(last[0])}" if last else ""
        raise InfeasibleError(f"the process of T = {self._T} ended ({how}){said}")


_RAISED = {"wrong": InputError, "infeasible": InfeasibleError, "failed": RuntimeError}


def _closed(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with suppress(OSError):  # unsent messages are no longer needed
            pipe.close()


def _listen(pipe: IO[bytes], heard: "queue.SimpleQueue[bytes]") -> None:
    """Every line, then an empty one."""
    with suppress(OSError, ValueError):  # the pipe was closed because the process has ended
        for line in pipe:
            heard.put(line)
    heard.put(b"")


def _outcome(trial: Trial, message: Message) -> Outcome:
    runs = tuple(_run(fields) for fields in message["runs"])
    return Outcome(trial, message["solved"], runs, message["reason"])


def _run(fields: Message) -> Run:
    kept = fields.pop("parameters")
    return Run(**fields, parameters=None if kept is None else b64decode(kept))
