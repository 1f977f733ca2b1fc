"""Laws of time: t* = c T^a for each number s of relevant bits, and t* = c T^(a s) for all of them.

c T^a is the median time of the runs that are ever solved; the share of the others is a separate
parameter. Instead of T a law may use m, or any axis of the sweep with numeric values: the batch
size, the width, the heads, the learning rate. The fits, their intervals and their p-values are
those of `time_fits`.

A learner by statistical queries needs about T^s steps for a parity, T^leap for other functions
(`capax.capacity.complexity.statistical_queries`): a = s in the first law, a = 1 in the second.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capax.analysis.times.solve_times import RunTimes, SolveTimes, without
from capax.analysis.times.time_fits import TimeSample, fitted_line


@dataclass(frozen=True)
class TimeLaw:
    """A fitted law over T, m or another axis; `p_fit` is `None` with two values or fewer.

    T, m, s: the common values of the runs; `None` for the axis of the law (s: if it joins all s).
    low, high: 95% interval of the exponent, `None` for an open end. never: share of runs that are
    never solved (the largest over s). noise: the shape of the times around the law.
    """

    panel: str
    T: int | None
    m: int | None
    s: int | None
    leap: int | None
    over: str
    values: tuple[float, ...]
    exponent: float
    low: float | None
    high: float | None
    c: float
    never: float
    noise: str
    p_fit: float | None

    @property
    def joins_s(self) -> bool:
        return self.over == "T" and self.s is None

    @property
    def formula(self) -> str:
        return "t* = c T^(a s)" if self.joins_s else f"t* = c {self.over}^a"

    @property
    def of_queries(self) -> int | None:
        """The exponent of statistical queries for this law; `None` for axes other than T."""
        if self.over != "T":
            return None
        return 1 if self.joins_s else self.leap

    def median(self, x: int | float, s: int = 1) -> float:
        """Median steps, at x, of the runs that are solved; s: for a law that joins all s."""
        return self.c * x ** (self.exponent * (s if self.joins_s else 1))

    def to_json(self) -> dict[str, Any]:
        return {
            "panel": self.panel,
            "T": [int(x) for x in self.values] if self.over == "T" else [self.T],
            "m": self.m,
            "s": self.s,
            "leap": self.leap,
            "over": self.over,
            "values": list(self.values),
            "law": self.formula,
            "exponent": self.exponent,
            "low": self.low,
            "high": self.high,
            "c": self.c,
            "never": self.never,
            "noise": self.noise,
            "p_fit": self.p_fit,
            "statistical_queries": self.of_queries,
        }


LineKey = tuple[str, int | None, int | None, int | None]
"""Panel, T, m and s that the points of a line share; `None` for its axis."""


def line_of(cell: RunTimes | SolveTimes, over: str) -> LineKey:
    """The line to which a setting belongs for a given axis."""
    T, m = (None if over == name else x for name, x in (("T", cell.T), ("m", cell.m)))
    return without(cell.panel, over), T, None if over == "batch_size" else m, cell.s


def time_laws(times: Sequence[RunTimes], over: str = "T") -> tuple[TimeLaw, ...]:
    """The law of each line with solved runs at two or more values of the axis.

    Then laws over T that join the parities of several s: panels that differ only in their function
    share a law.
    """
    single: dict[LineKey, list[RunTimes]] = defaultdict(list)
    joint: dict[LineKey, list[RunTimes]] = defaultdict(list)
    for cell in times:
        if cell.at(over) is not None and (over != "T" or cell.s is not None):
            single[line_of(cell, over)].append(cell)
        if over == "T" and cell.s is not None and cell.leap in (None, cell.s):
            joint[without(cell.panel, "function"), None, cell.m, None].append(cell)
    found = [_law(key, over, cells) for key, cells in single.items()]
    found += [
        _law(key, over, cells)
        for key, cells in joint.items()
        if len({cell.s for cell in cells if np.isfinite(cell.by).any()}) > 1
    ]
    return tuple(law for law in found if law is not None)


def _law(key: LineKey, over: str, cells: Sequence[RunTimes]) -> TimeLaw | None:
    """The law of some settings; `None` if fewer than two values of the axis have solved runs."""
    panel, T, m, s = key
    values = [cell.at(over) or 0.0 for cell in cells]
    solved = {x for x, cell in zip(values, cells, strict=True) if np.isfinite(cell.by).any()}
    if len(solved) < 2 or min(values) <= 0:
        return None
    bits = [cell.s or 0 for cell in cells]
    groups = sorted(set(bits))
    powers = bits if over == "T" and s is None else [1] * len(bits)
    x = [math.log(value) * power for value, power in zip(values, powers, strict=True)]
    line = fitted_line(TimeSample.of(cells, x, [groups.index(b) for b in bits]))
    return TimeLaw(
        panel, T, m, s, cells[0].leap if s is not None else None, over,
        tuple(sorted(set(values))), line.exponent, line.low, line.high, math.exp(line.start),
        float(line.never.max()), line.shape, line.p_fit,
    )  # fmt: skip


def frontier(rows: Sequence[SolveTimes]) -> tuple[SolveTimes, ...]:
    """The settings that are faster than every setting with fewer examples (m against median t*).

    For each panel, T and s, in the order of m; settings with a median beyond the limit are left
    out.
    """
    best: dict[LineKey, float] = {}
    found = []
    for row in sorted(rows, key=lambda row: (line_of(row, "m")[0], row.T, row.s or 0, row.m)):
        steps, line = row.median.value, line_of(row, "m")
        if steps is not None and steps < best.get(line, math.inf):
            best[line] = steps
            found.append(row)
    return tuple(found)
