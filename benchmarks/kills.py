"""Kill real commands at random moments: same results, whole files, right exit codes, no leftovers.

    python benchmarks/kills.py                   # 30 kills of each command, ten of a comparison
    python benchmarks/kills.py --kills 6 --seed 3 --only compile
    python benchmarks/kills.py --only ray --only deletions     # `benchmarks/kills_on_ray.py`

SIGKILL, SIGTERM and SIGINT in turn. A sweep is resumed after every kill and must end as one that
was never killed. A command that writes a file must leave the old file or the new one, whole, and
nothing beside it. The comparison is a sweep over axes and panels with its joint verdict, under
SIGKILL alone. Prints a line per command; exits with 1 at the first thing that is wrong.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import kills_on_ray

IN_TURN = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
# The `capax` command, hearing Ctrl-C also where a shell started us in the background without it.
CAPAX = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from capax.cli.entry import main
main()
"""
SWEEP = """
name = "sweep"
function = "and3"
[model]
family = "transformer"
d = 16
heads = 2
mlp_width = 32
[training]
steps = 100
eval_every = 25
restarts = 2
[panels.threshold]
T = [6, 9]
search = { method = "grid", m = [20, 40, 60], trials = 70 }
"""
COMPARISON = """
name = "comparison"
function = "and2"
[axes]
heads = [1, 2]
[model]
family = "transformer"
d = 8
mlp_width = 16
[training]
steps = 60
eval_every = 20
restarts = 2
[panels.threshold]
T = [5, 7, 9]
search = { m_low = 8, m_high = 60, batch = 8, min_trials = 16, max_trials = 16 }
[panels.curves]
T = [6]
search = { method = "grid", m = [30], trials = 6 }
whole_curves = true
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


def kill_sweep(
    place: Workplace,
    experiment: str,
    kills: int,
    dice: random.Random,
    turn: tuple = IN_TURN,
    options: tuple = ("--jobs", 2),
) -> Counter:
    """Kill one sweep again and again; its store ends as that of a sweep left alone."""
    (place.folder / "sweep.toml").write_text(experiment)
    whole, store = place.folder / "whole.sqlite", place.folder / "killed.sqlite"
    place.run("sweep", "sweep.toml", "--store", whole, "--jobs", 2)
    wanted = results(whole)
    per_life = len(wanted["trials"]) / (1.4 * kills)
    count: Counter = Counter()
    while count["cut"] + count["early"] < kills:
        number = turn[(count["cut"] + count["early"]) % len(turn)]
        enough = num_trials(store) + dice.uniform(0, 2) * per_life
        before = beside(store)
        patience = dice.uniform(0, 1.5) if dice.random() < 0.3 else 600.0

        def moment(process, enough=enough, patience=patience) -> None:
            end = time.monotonic() + patience
            while process.poll() is None and time.monotonic() < end:
                if num_trials(store) > enough:
                    time.sleep(dice.uniform(0, 0.1))
                    return
                time.sleep(0.02)

        life = place.killed(number, moment, "sweep", "sweep.toml", "--store", store, *options)
        count[life.outcome] += 1
        left = beside(store) - before
        must(not left or number is signal.SIGKILL, f"{left} left by {life}")
        if life.outcome == "done":  # it was faster than its last kill: once more from the start
            must(results(store) == wanted, "the killed sweep has other results")
            store.unlink()
    place.run("sweep", "sweep.toml", "--store", store, *options)
    must(results(store) == wanted, "the killed sweep has other results")
    must(not beside(store), f"{beside(store)} left beside the store")
    return count


def content(path: Path) -> object:
    """What a file says. The header of a safetensors file has no order of its own."""
    if not path.exists():
        return None
    data = path.read_bytes()
    if path.suffix != ".safetensors":
        return data
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def kill_writer(
    place: Workplace,
    words: tuple[object, ...],
    out: str,
    old: bytes,
    kills: int,
    dice: random.Random,
) -> Counter:
    """Kill a command that writes `out`: there is the old file or the new one, and nothing else."""
    folder = place.folder / "out"
    folder.mkdir()
    target = folder / out
    seconds = min(place.run(*words, "--out", target)[0] for _ in range(2))
    new = content(target)
    count: Counter = Counter()
    while count["cut"] + count["early"] < kills:
        number = IN_TURN[(count["cut"] + count["early"]) % len(IN_TURN)]
        target.unlink(missing_ok=True)
        if dice.random() < 0.5:
            target.write_bytes(old)
        before = content(target)
        wait = dice.uniform(0, seconds)
        life = place.killed(number, lambda _, wait=wait: time.sleep(wait), *words, "--out", target)
        count[life.outcome] += 1
        after = content(target)
        must(after in ((new,) if life.outcome == "done" else (before, new)), f"{out} is half there")
        count["written"] += life.outcome == "cut" and after == new
        others = {path.name for path in folder.iterdir()} - {out}
        must(not others, f"{others} left beside {out} by {life}")
    place.run(*words, "--out", target)
    must(content(target) == new, f"{out} differs without a kill")
    return count


def kill_comparison(place: Workplace, kills: int, dice: random.Random) -> Counter:
    """A sweep over axes and panels under SIGKILL: same outcomes, same joint verdict."""
    count = kill_sweep(place, COMPARISON, kills, dice, (signal.SIGKILL,))
    verdicts = []
    for store in ("whole.sqlite", "killed.sqlite"):
        shown = json.loads(place.run("thresholds", store, "--json")[1])
        verdicts.append([{**curve, "name": "", "store": ""} for curve in shown["curves"]])
    must(verdicts[0] == verdicts[1], "the verdicts differ")
    return count + Counter(curves=len(verdicts[0]))


def kill_file_writer(place: Workplace, name: str, kills: int, dice: random.Random) -> Counter:
    """`compile`, `report` or `export`, with what they need."""
    if name == "compile":
        place.run("compile", "x0 | x1", "-T", 40, "--out", "old.safetensors")
        old = (place.folder / "old.safetensors").read_bytes()
        words = ("compile", "x2 & x3 & x10", "-T", 40)
        return kill_writer(place, words, "weights.safetensors", old, kills, dice)
    (place.folder / "sweep.toml").write_text(COMPARISON)
    place.run("sweep", "sweep.toml", "--store", "store.sqlite")
    out = {"report": "report.html", "export": "runs.parquet"}[name]
    return kill_writer(place, (name, "store.sqlite"), out, b"an older file", kills, dice)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    names = ("sweep", "processes", "compile", "report", "export", "comparison", "ray", "deletions")
    parser.add_argument("--only", choices=names, action="append")
    options = parser.parse_args()
    for name in options.only or names:
        began, dice = time.monotonic(), random.Random(f"{options.seed} {name}")
        with tempfile.TemporaryDirectory(prefix="capax-kills-") as folder:
            place = Workplace(Path(folder))
            if name == "sweep":
                count = kill_sweep(place, SWEEP, options.kills, dice)
            elif name == "processes":
                apart = ("--jobs", 2, "--processes")
                count = kill_sweep(place, SWEEP, options.kills, dice, options=apart)
            elif name == "ray":
                count = kills_on_ray.kill_on_ray(place, options.kills, dice, sys.modules[__name__])
            elif name == "deletions":
                number = max(1, options.kills // 3)
                count = kills_on_ray.delete_stores(place, number, dice, sys.modules[__name__])
            elif name == "comparison":
                count = kill_comparison(place, max(1, options.kills // 3), dice)
            else:
                count = kill_file_writer(place, name, options.kills, dice)
        told = ", ".join(f"{number} {what}" for what, number in count.items())
        print(f"{name}: {told}; {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
