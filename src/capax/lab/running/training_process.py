"""`python -m capax.lab.running.training_process`: trains the runs in turn, one chunk each.

It reads lines of JSON (start, pause, resume, rate, stop) and writes lines of JSON (events of runs).
The process ends when its input ends, so it never outlives the server.
"""

import json
import os
import queue
import sys
import threading
from typing import IO, Any

SECONDS = 120.0  # of training and reading for one run


class Turns:
    """The runs of this process; each call of `turn` trains one chunk of one run."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._runs: dict[str, Any] = {}
        self._paused: set[str] = set()
        self._order: list[str] = []

    @property
    def is_idle(self) -> bool:
        """Whether no run is left to train."""
        return not [run for run in self._order if run not in self._paused]

    def obey(self, line: dict[str, Any]) -> None:
        """Execute one command for one run; commands for finished runs are ignored."""
        run, what = line["run"], line["what"]
        if what == "start":
            self._start(run, line["question"])
        elif run not in self._runs:
            return
        elif what == "pause":
            self._paused.add(run)
        elif what == "resume":
            self._paused.discard(run)
        elif what == "rate":
            self._runs[run].change_rate(line["lr"])
        elif what == "stop":
            self._end(run, {"outcome": "stopped", "steps": self._runs[run].step})

    def turn(self) -> None:
        """One chunk of the run whose turn it is."""
        run = next(name for name in self._order if name not in self._paused)
        self._order.remove(run)
        self._order.append(run)
        live = self._runs[run]
        try:
            self._say(run, {"kind": "look", **live.look()})
            if live.over:
                self._end(run, live.verdict())
            elif live.seconds > SECONDS:
                said = f"the time limit of {SECONDS:g} s was reached"
                self._end(run, {"outcome": "stopped", "steps": live.step, "reason": said})
        except Exception as error:  # an error in one run must not end the others
            self._failed(run, error)

    def _start(self, run: str, fields: dict[str, Any]) -> None:
        from capax.lab.running.live_run import LiveRun
        from capax.lab.views.create_view import RunQuestion

        try:
            question = RunQuestion(**fields)
            trial = question.trial()
            self._runs[run] = LiveRun(trial, question.max_m, question.is_parity)
        except Exception as error:
            self._failed(run, error)
            return
        self._order.append(run)
        started = {"support": self._runs[run].support, "command": question.command}
        self._say(run, {"kind": "started", **started, "p": trial.task.probability})

    def _failed(self, run: str, error: Exception) -> None:
        from capax.errors import CapaxError

        known = isinstance(error, CapaxError)
        said = str(error) if known else f"{type(error).__name__}: {str(error)[:200]}"
        self._end(run, {"outcome": "error", "reason": said})

    def _end(self, run: str, facts: dict[str, Any]) -> None:
        self._runs.pop(run, None)
        self._paused.discard(run)
        if run in self._order:
            self._order.remove(run)
        self._say(run, {"kind": "ended", **facts})

    def _say(self, run: str, event: dict[str, Any]) -> None:
        from capax.plain_json import json_text

        self._out.write(json_text({"run": run, "event": event}) + "\n")
        self._out.flush()


def main() -> None:
    """Execute commands and train until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of libraries must not mix with the events
    lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    turns = Turns(out)
    while True:
        while turns.is_idle or not lines.empty():
            turns.obey(lines.get())
        turns.turn()


def _listen(lines: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        lines.put(json.loads(line))
    os._exit(0)  # the server is gone


if __name__ == "__main__":
    main()
