"""How often do the intervals of `capax times` cover? Simulated learners with a known law of time.

    python benchmarks/times_coverage.py [SWEEPS] [SEED]

Each line: so many runs at each of five T, times around c T^a with noise of a given shape, looks
every `every` steps, a limit of steps, and a share of runs that never get there. The table says how
often the 95% interval of the exponent holds a, how often those of the medians hold theirs, and how
often the p-value of the fit is below 5 % although the law is true.
"""

import math
import sys
from dataclasses import dataclass

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


def main(sweeps: int, seed: int) -> None:
    print("| noise | runs | never | limit | exponent covered | medians covered | fit p < 5 % |")
    print("|---|---|---|---|---|---|---|")
    for noise in NOISES:
        for runs, never, limit in ((12, 0.0, 20_000), (40, 0.0, 3_000), (40, 0.15, 20_000),
                                   (40, 0.15, 3_000), (20, 0.3, 6_000)):  # fmt: skip
            truth = Truth(1.8, noise, runs, never, limit)
            medians = {T: truth.all_median(T) for T in LENGTHS}
            covered = held = refuted = 0
            for sweep in range(sweeps):
                random = np.random.default_rng([seed, sweep, runs, limit, int(100 * never)])
                cells = [truth.times(T, random) for T in LENGTHS]
                line = fitted_line(TimeSample.of(cells, [math.log(T) for T in LENGTHS], [0] * 5))
                low = -math.inf if line.low is None else line.low
                high = math.inf if line.high is None else line.high
                covered += low <= truth.exponent <= high
                refuted += line.p_fit is not None and line.p_fit < 0.05
                for cell in cells:
                    found = quantile(cell, 0.5)
                    top = math.inf if found.high is None else found.high
                    held += found.low <= medians[cell.T] <= top
            shares = [covered / sweeps, held / sweeps / len(LENGTHS), refuted / sweeps]
            cells_text = " | ".join(f"{share:.1%}" for share in shares)
            print(f"| {noise} | {runs} | {never:.0%} | {limit} | {cells_text} |", flush=True)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(*given, *(200, 0)[len(given) :])
