"""How often do the intervals of `capax times` cover? Simulated learners with a known law of time.

    python benchmarks/times_coverage.py --sweeps 200 --jobs 16 --minutes 8 --out coverage.jsonl

Each line: so many runs at each of five T, times around c T^a with noise of a given shape, looks
every `every` steps, a limit of steps, and a share of runs that never get there. The table says how
often the 95% interval of the exponent holds a, how often those of the medians hold theirs, and how
often the p-value of the fit is below 5 % although the law is true. With `--out` a second call goes
on where the first one was stopped, by `--minutes` or by hand; the table is of what is done.
"""

import argparse
import itertools
import json
import math
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from capax.analysis.times.solve_times import RunTimes, quantile
from capax.analysis.times.time_fits import TimeSample, fitted_line

LENGTHS = (10, 15, 20, 30, 50)
NOISES = ("log-normal", "Weibull", "delayed exponential")


@dataclass(frozen=True)
class Truth:
    exponent: float
    noise: str
    runs: int
    never: float
    limit: int
    every: int = 50
    c: float = 4.0

    def median(self, T: int) -> float:
        return self.c * T**self.exponent

    def times(self, T: int, random: np.random.Generator) -> RunTimes:
        n = self.runs
        if self.noise == "log-normal":
            factor = np.exp(0.5 * random.standard_normal(n))
        elif self.noise == "Weibull":
            factor = (random.exponential(size=n) / math.log(2)) ** 0.5
        else:
            factor = 0.5 + 0.5 * random.exponential(size=n) / math.log(2)
        true = np.where(random.random(n) < self.never, math.inf, self.median(T) * factor)
        by = np.where(true <= self.limit, np.ceil(true / self.every) * self.every, math.inf)
        after = np.where(np.isfinite(by), by - self.every, float(self.limit))
        return RunTimes("simulated", T, 1, 2, self.limit, after, by)

    def all_median(self, T: int) -> float:
        """Median over all runs, those that never get there included (Monte Carlo)."""
        big = Truth(self.exponent, self.noise, 200_000, self.never, 10**12, 1, self.c)
        return float(np.median(big.times(T, np.random.default_rng(7)).by))


LINES = ((12, 0.0, 20_000), (40, 0.0, 3_000), (40, 0.15, 20_000), (40, 0.15, 3_000),
         (20, 0.3, 6_000))  # fmt: skip
"""Runs at each T, share that never gets there, limit of steps."""
Unit = tuple[str, int, int, int]
"""Noise, number of the line, seed, sweep."""


@cache
def true_medians(truth: Truth) -> dict[int, float]:
    return {T: truth.all_median(T) for T in LENGTHS}


def simulate(unit: Unit) -> tuple[Unit, list[int]]:
    """One sweep: whether the exponent is covered, medians covered, whether the fit is refuted."""
    noise, line, seed, sweep = unit
    runs, never, limit = LINES[line]
    truth = Truth(1.8, noise, runs, never, limit)
    random = np.random.default_rng([seed, sweep, runs, limit, int(100 * never)])
    cells = [truth.times(T, random) for T in LENGTHS]
    found = fitted_line(TimeSample.of(cells, [math.log(T) for T in LENGTHS], [0] * 5))
    low = -math.inf if found.low is None else found.low
    high = math.inf if found.high is None else found.high
    held = 0
    for cell in cells:
        median = quantile(cell, 0.5)
        top = math.inf if median.high is None else median.high
        held += median.low <= true_medians(truth)[cell.T] <= top
    refuted = found.p_fit is not None and found.p_fit < 0.05
    return unit, [int(low <= truth.exponent <= high), held, int(refuted)]


def known(out: Path) -> dict[Unit, list[int]]:
    lines = out.read_text().splitlines() if out.is_file() else []
    return {tuple(unit): counts for unit, counts in map(json.loads, lines)}


def table(done: dict[Unit, list[int]]) -> str:
    rows = defaultdict(list)
    for (noise, line, *_), counts in done.items():
        rows[NOISES.index(noise), line].append(counts)
    head = "exponent covered | medians covered | fit p < 5 %"
    lines = [f"| noise | runs | never | limit | sweeps | {head} |", "|---" * 8 + "|"]
    for (noise, line), counts in sorted(rows.items()):
        runs, never, limit = LINES[line]
        covered, held, refuted = np.mean(counts, axis=0) / (1, len(LENGTHS), 1)
        setting = f"{NOISES[noise]} | {runs} | {never:.0%} | {limit} | {len(counts)}"
        lines.append(f"| {setting} | {covered:.1%} | {held:.1%} | {refuted:.1%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweeps", type=int, default=200, help="on each of the 15 lines")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", nargs="*", choices=NOISES, default=NOISES)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then it ends")
    parser.add_argument("--out", type=Path, default=Path("times_coverage.jsonl"))
    asked = parser.parse_args()
    done, end = known(asked.out), time.monotonic() + 60 * asked.minutes
    lines = itertools.product(range(asked.sweeps), asked.noise, range(len(LINES)))
    units = [(noise, line, asked.seed, sweep) for sweep, noise, line in lines]
    with Pool(asked.jobs) as pool, asked.out.open("a") as file:
        for unit, counts in pool.imap_unordered(simulate, [u for u in units if u not in done]):
            done[unit] = counts
            print(json.dumps([unit, counts]), file=file, flush=True)
            if time.monotonic() > end:
                pool.terminate()
                break
    print(table(done))


if __name__ == "__main__":
    main()
