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
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import kills_on_ray
from killed_commands import Workplace, beside, must, num_trials, results

IN_TURN = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
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


def kill(name: str, place: Workplace, kills: int, dice: random.Random) -> Counter:
    """Kill the command `name` so many times; the slow ones a third as often."""
    third = max(1, kills // 3)
    if name == "sweep":
        return kill_sweep(place, SWEEP, kills, dice)
    if name == "processes":
        return kill_sweep(place, SWEEP, kills, dice, options=("--jobs", 2, "--processes"))
    if name == "ray":
        return kills_on_ray.kill_on_ray(place, kills, dice)
    if name == "deletions":
        return kills_on_ray.delete_stores(place, third, dice)
    if name == "comparison":
        return kill_comparison(place, third, dice)
    return kill_file_writer(place, name, kills, dice)


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
            count = kill(name, Workplace(Path(folder)), options.kills, dice)
        told = ", ".join(f"{number} {what}" for what, number in count.items())
        print(f"{name}: {told}; {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
