"""Commands that are killed on purpose, and checks of what they leave: for `kills.py`."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
# The `capax` command, hearing Ctrl-C also where a shell started us in the background without it.
CAPAX = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from capax.cli.entry import main
main()
"""
RESULTS = {
    "trials": "trial_id, panel, T, m, number, solved, reason, search",
    "runs": "run_id, trial_id, restart, outcome, solved_step, steps, path, reason, spec, curves",
    "jobs": "panel, T, search, finished, note",
    "parameters": "run_id, tensors",
}


@dataclass(frozen=True)
class Life:
    """How a process ended that was sent `number`."""

    number: signal.Signals
    code: int
    stderr: str
    seconds: float  # from the signal to the end

    @property
    def outcome(self) -> str:
        """`cut`, `done` (it was faster), or `early` (before the first line of Capax)."""
        if self.code == 0:
            return "done"
        if self.number is not signal.SIGKILL and self.code == -self.number:
            return "early"
        return "cut"

    def check(self) -> None:
        """Raise unless code and message are right."""
        if self.outcome == "early":
            return
        said = [line for line in self.stderr.splitlines() if line.startswith("error")]
        must(self.code in (0, CODES[self.number]), f"exit code {self.code} after {self.number!r}")
        must("Traceback" not in self.stderr and "Exception ignored" not in self.stderr, self.stderr)
        spoke = self.outcome == "cut" and self.number is not signal.SIGKILL
        must(len(said) == spoke, f"said {self.stderr!r} after {self.number!r}")


def must(condition: object, otherwise: str) -> None:
    if not condition:
        raise SystemExit(f"kills: {otherwise}")


class Workplace:
    """A folder, an environment, and the commands that run there."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self._python = python
        self._environment = {**os.environ, "CAPAX_CACHE": str(folder / "cache")}

    def start(self, *words: object) -> "subprocess.Popen[str]":
        command = [self._python, "-c", CAPAX, *map(str, words)]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: object) -> tuple[float, str]:
        """Seconds and standard output of a command that is left alone."""
        began, process = time.monotonic(), self.start(*words)
        out, said = process.communicate()
        must(process.returncode == 0, f"{words}: {said}")
        return time.monotonic() - began, out

    def killed(
        self,
        number: signal.Signals,
        moment: Callable[["subprocess.Popen[str]"], None],
        *words: object,
    ) -> Life:
        """The command, sent `number` when `moment` returns."""
        process = self.start(*words)
        moment(process)
        sent = time.monotonic()
        process.send_signal(number)
        _, said = process.communicate()
        life = Life(number, process.returncode, said, time.monotonic() - sent)
        life.check()
        return life


def results(store: Path) -> dict[str, list[tuple]]:
    """Everything in a store that does not tell the time."""
    with closing(sqlite3.connect(store)) as connection:
        return {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2").fetchall()
            for table, columns in RESULTS.items()
        }


def num_trials(store: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def beside(store: Path) -> set[str]:
    """What a writer that was killed without a word left beside its store, for the next one."""
    return {end for end in (".lock", "-wal", "-shm") if Path(f"{store}{end}").exists()}
