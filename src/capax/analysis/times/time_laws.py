"""Laws of time: t* = c T^a for each number s of relevant bits, and t* = c T^(a s) for all of them.

c T^a is the median time of the runs that get there; the share that never does is a number of its
own. A statistical-query learner needs about T^s steps: a = s in the first law, a = 1 in the second.
The fits, their intervals and their p-values are those of `time_fits`.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capax.analysis.times.solve_times import RunTimes
from capax.analysis.times.time_fits import TimeSample, fitted_line


@dataclass(frozen=True)
class TimeLaw:
    """A fitted law; `s` is `None` where it joins all s. `p_fit` is `None` with two T or fewer.

    low, high: 95% interval of the exponent, `None` where it is open. never: share of runs that
    never get there (the largest over s). noise: the shape of the times around the law.
    """

    panel: str
    m: int
    s: int | None
    exponent: float
    low: float | None
    high: float | None
    c: float
    never: float
    noise: str
    p_fit: float | None
    lengths: tuple[int, ...]

    @property
    def formula(self) -> str:
        return "t* = c T^(a s)" if self.s is None else "t* = c T^a"

    @property
    def of_queries(self) -> int:
        """The exponent of T^s, the steps of statistical queries, in the terms of this law."""
        return 1 if self.s is None else self.s

    def median(self, T: int | float, s: int) -> float:
        """Median steps, at length T, of the runs that get there."""
        return self.c * T ** (self.exponent * (s if self.s is None else 1))

    def to_json(self) -> dict[str, Any]:
        return {
            "panel": self.panel,
            "m": self.m,
            "s": self.s,
            "law": self.formula,
            "exponent": self.exponent,
            "low": self.low,
            "high": self.high,
            "c": self.c,
            "never": self.never,
            "noise": self.noise,
            "p_fit": self.p_fit,
            "T": list(self.lengths),
            "statistical_queries": self.of_queries,
        }


def time_laws(times: Sequence[RunTimes]) -> tuple[TimeLaw, ...]:
    """The law of each panel, m and s with solved runs at two T; then laws that join several s.

    Panels that differ in their function alone share a law for all s.
    """
    single: dict[tuple[str, int, int], list[RunTimes]] = defaultdict(list)
    joint: dict[tuple[str, int], list[RunTimes]] = defaultdict(list)
    for cell in times:
        if cell.s is not None:
            single[cell.panel, cell.m, cell.s].append(cell)
            joint[_without_function(cell.panel), cell.m].append(cell)
    found = [_law(panel, m, s, cells) for (panel, m, s), cells in single.items()]
    found += [
        _law(panel, m, None, cells)
        for (panel, m), cells in joint.items()
        if len({cell.s for cell in cells if np.isfinite(cell.by).any()}) > 1
    ]
    return tuple(law for law in found if law is not None)


def _without_function(panel: str) -> str:
    return "/".join(part for part in panel.split("/") if not part.startswith("function="))


def _law(panel: str, m: int, s: int | None, cells: Sequence[RunTimes]) -> TimeLaw | None:
    """`None` where fewer than two T have solved runs."""
    if len({cell.T for cell in cells if np.isfinite(cell.by).any()}) < 2:
        return None
    bits = [cell.s or 0 for cell in cells]
    groups = sorted(set(bits))
    powers = bits if s is None else [1] * len(bits)
    x = [math.log(cell.T) * power for cell, power in zip(cells, powers, strict=True)]
    line = fitted_line(TimeSample.of(cells, x, [groups.index(b) for b in bits]))
    return TimeLaw(
        panel, m, s, line.exponent, line.low, line.high, math.exp(line.start),
        float(line.never.max()), line.shape, line.p_fit,
        tuple(sorted({cell.T for cell in cells})),
    )  # fmt: skip
