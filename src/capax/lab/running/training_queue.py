"""The queue of training runs that all pages share: one process, few runs at once, bounded memory.

Runs wait in the order of their start. At most `AT_ONCE` are trained, in turn. A paused run is kept
and gives its place to the next one, so at most `KEPT` runs exist in the process. If the process
exceeds its memory limit, or dies, all its runs end with the reason, and the next run starts a new
process.
"""

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from capax.errors import InputError, require

if TYPE_CHECKING:
    from capax.lab.views.create_view import RunQuestion

PROCESS = ("-m", "capax.lab.running.training_process")
AT_ONCE = 4
KEPT = 12
WAITING = 32
REMEMBERED = 64
KEPT_NUMBERS = 4_000_000
"""Limits of the runs whose events are kept and of the numbers in them; old runs are dropped."""
MEMORY = 3 * 2**30
GLANCE = 0.5  # seconds between two checks of the memory of the process

Event = dict[str, Any]


@dataclass
class _QueuedRun:
    question: "RunQuestion"
    events: list[Event] = field(default_factory=list)
    state: str = "waiting"  # waiting, training, paused, ending or ended


class TrainingQueue:
    """Start, steer and read runs. `close`, or the end of a `with` block, ends the process."""

    def __init__(self, *, memory: int = MEMORY) -> None:
        self._memory = memory
        self._lock = threading.RLock()
        self._ended = threading.Condition(self._lock)
        self._over_memory = False
        self._runs: dict[str, _QueuedRun] = {}
        self._process: subprocess.Popen[str] | None = None
        self._closed = False

    def __enter__(self) -> "TrainingQueue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, question: "RunQuestion") -> str:
        """Start a run; returns its name. Raises `InputError` if too many runs wait."""
        question.trial()  # raises an error for a wrong question now
        with self._lock:
            waiting = sum(run.state == "waiting" for run in self._runs.values())
            require(waiting < WAITING, "runs", f"at most {WAITING} waiting runs", waiting)
            name = secrets.token_hex(8)
            self._forget()
            self._runs[name] = _QueuedRun(question)
            self._add(name, {"kind": "waiting", "before": waiting})
            self._fill()
        return name

    def steer(self, name: str, fields: Mapping[str, Any]) -> None:
        """Pause, resume or stop a run, or give it another learning rate."""
        what = fields.get("what")
        known = ("pause", "resume", "stop", "rate")
        require(what in known, "what", f"one of {', '.join(known)}", what)
        with self._lock:
            run = self._runs.get(name)
            require(run is not None, "run", "a run of this server", name)
            assert run is not None
            if run.state in ("ending", "ended"):
                return
            if what == "rate":
                from capax.lab.views.create_view import RunQuestion

                rate: Any = fields.get("lr")
                lr = RunQuestion(lr=rate).lr  # the same limits as at the start
                self._send({"run": name, "what": "rate", "lr": lr})
                self._add(name, {"kind": "rate", "lr": lr})
            elif what == "stop":
                self._stop(name, run)
            elif run.state != "waiting":
                run.state = "paused" if what == "pause" else "training"
                self._send({"run": name, "what": what})
                self._add(name, {"kind": "paused" if what == "pause" else "resumed"})
            self._fill()

    def events(self, name: str) -> list[Event] | None:
        """The events of a run so far; None for a run that this server does not know."""
        run = self._runs.get(name)
        return None if run is None else run.events

    def recorded(self, name: str) -> dict[str, Any]:
        """Question and events of a run, for a frozen page. Raises `InputError` if it is unknown."""
        run = self._runs.get(name)
        if run is None:
            raise InputError(f"run: this server has no run {name!r}")
        return {"question": run.question.model_dump(), "events": list(run.events)}

    def wait(self, name: str, seconds: float) -> list[Event]:
        """The events of a run after its end. Raises `InputError` after `seconds` of waiting."""
        run = self._runs[name]
        with self._ended:
            if not self._ended.wait_for(lambda: run.state == "ended", seconds):
                raise InputError(f"run: not finished within {seconds:g} s; use fewer steps")
        return run.events

    def close(self) -> None:
        """End the process and its runs."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)

    def _stop(self, name: str, run: _QueuedRun) -> None:
        if run.state == "waiting":
            self._add(name, {"kind": "ended", "outcome": "stopped", "steps": 0})
        else:
            run.state = "ending"
            self._send({"run": name, "what": "stop"})

    def _fill(self) -> None:
        """Start waiting runs on free places; the oldest paused runs end if too many are kept."""
        live = [name for name, run in self._runs.items() if run.state in ("training", "paused")]
        training = sum(self._runs[name].state == "training" for name in live)
        for name, run in list(self._runs.items()):
            if training >= AT_ONCE:
                return
            if run.state == "waiting":
                paused = [other for other in live if self._runs[other].state == "paused"]
                if len(live) >= KEPT and paused:
                    self._stop(paused[0], self._runs[paused[0]])
                    live.remove(paused[0])
                run.state = "training"
                live.append(name)
                training += 1
                self._send({"run": name, "what": "start", "question": run.question.model_dump()})

    def _send(self, line: dict[str, Any]) -> None:
        if self._closed:
            return
        if self._process is None or self._process.poll() is not None:
            self._process = self._launch()
        assert self._process.stdin is not None
        with suppress(OSError):  # the process is dead: the thread that reads its events reports it
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()

    def _launch(self) -> "subprocess.Popen[str]":
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        process = subprocess.Popen(
            [sys.executable, *PROCESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the server, which ends this process itself
            env={**os.environ, **threads, "JAX_PLATFORMS": "cpu"},
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with suppress(ValueError):  # the pipe was closed: the events are not needed any more
            for line in process.stdout:
                told = json.loads(line)
                with self._lock:
                    self._add(told["run"], told["event"])
                    if told["event"]["kind"] == "ended":
                        self._fill()
        process.wait()
        self._died(process)

    def _watch(self, process: "subprocess.Popen[str]") -> None:
        """Kill a process that exceeds its memory limit."""
        with suppress(psutil.Error):
            seen = psutil.Process(process.pid)
            while process.poll() is None:
                if seen.memory_info().rss > self._memory:
                    self._over_memory = True
                    process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GLANCE)

    def _died(self, process: "subprocess.Popen[str]") -> None:
        with self._lock:
            if self._process is not process:
                return
            self._process = None
            _close_pipes(process)
            limit = f"the memory limit of {self._memory / 2**30:.3g} GiB was reached"
            reason = limit if self._over_memory else "the training process ended"
            self._over_memory = False
            for name, run in self._runs.items():
                if run.state in ("training", "paused", "ending"):
                    self._add(name, {"kind": "ended", "outcome": "error", "reason": reason})
            if not self._closed:
                self._fill()

    def _add(self, name: str, event: Event) -> None:
        run = self._runs.get(name)
        if run is None or run.state == "ended":
            return
        run.events.append(event)
        if event["kind"] == "ended":
            run.state = "ended"
            self._ended.notify_all()

    def _forget(self) -> None:
        """Drop the oldest finished runs while too many runs or numbers are kept."""
        held = {name: len(run.events) * run.question.T for name, run in self._runs.items()}
        total = sum(held.values())
        for name in [name for name, run in self._runs.items() if run.state == "ended"]:
            if len(self._runs) <= REMEMBERED and total <= KEPT_NUMBERS:
                return
            total -= held[name]
            del self._runs[name]


def _close_pipes(process: "subprocess.Popen[str]") -> None:
    """Close the pipes, which stay open after the end of a process."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
