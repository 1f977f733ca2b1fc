"""t*: the number of steps after which a run has solved its task, with intervals.

A run is evaluated every few steps (a look), so its time lies between two looks. A run that ended
unsolved has a time beyond its last step. It counts as infinite here, whatever ended the run: the
limit of steps, a divergence, or a rule that gave it up. A quantile depends only on the order of the
times, so this does not change a quantile below the limit.

**Interval of a quantile.** Let t be the q-quantile of the times and K the number of runs of n with
a time of at most t. With X_(1) <= ... <= X_(n) the sorted times,

    t < X_(l)   only if   K < l,       chance at most P(Bin(n, q) <= l - 1),
    t > X_(u)   only if   K >= u for all times below t,   chance at most P(Bin(n, q) >= u).

The largest l and the smallest u for which each chance is at most 2.5 % give an interval that covers
with at least 95 %, for every distribution of times. `low` is the last look before X_(l), `high` the
first look at or after X_(u). If no u <= n exists, or X_(u) is infinite, the interval is open above.

Only the first run of each trial counts, because a restart is made only if the run before it failed.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import bdtr, bdtrc, betaincinv

from capax.boolean import parse
from capax.boolean.traits.bias import balancing_probability
from capax.boolean.traits.leap import leap
from capax.errors import InputError, require
from capax.sweep.storage.store import Store

LEVEL = 0.95
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class RunTimes:
    """The times of the runs of one setting: unsolved at `after`, solved at `by` (or infinite).

    m: examples, or the batch size if every step draws fresh examples. s, leap: the number of
    relevant bits of the task and its leap, if it is a formula of bits. limit: steps of a run.
    """

    panel: str
    T: int
    m: int
    s: int | None
    limit: int
    after: Float[ndarray, " n"]
    by: Float[ndarray, " n"]
    leap: int | None = None

    def __post_init__(self) -> None:
        require(self.after.size > 0, "after", "at least one run", 0)
        require(bool((self.after < self.by).all()), "by", "later than after", "an earlier time")

    def at(self, axis: str) -> float | None:
        """The value on an axis: T, m, or a number in the panel's name (`threshold/heads=4`)."""
        return position(self.panel, self.T, self.m, axis)


def position(panel: str, T: int, m: int, axis: str) -> float | None:
    """The number of this axis in a panel's name; `None` if there is none."""
    if axis in ("T", "m"):
        return float(T if axis == "T" else m)
    values = (part.partition("=")[2] for part in panel.split("/") if part.startswith(f"{axis}="))
    try:
        return float(next(values, ""))
    except ValueError:
        return None


def without(panel: str, axis: str) -> str:
    """The panel's name without its value on an axis."""
    return "/".join(part for part in panel.split("/") if not part.startswith(f"{axis}="))


@dataclass(frozen=True)
class Quantile:
    """A quantile of the times with its 95% interval; `None` if it lies beyond the limit."""

    value: int | None
    low: int
    high: int | None


@dataclass(frozen=True)
class SolveTimes:
    """Steps to solve at one setting; quartiles over all runs, unsolved ones counted as infinite.

    share_low, share_high: 95% interval of the share of runs that are solved within the limit.
    """

    panel: str
    T: int
    m: int
    s: int | None
    limit: int
    quartiles: tuple[Quantile, Quantile, Quantile]
    solved: int
    censored: int
    share_low: float
    share_high: float
    leap: int | None = None

    def at(self, axis: str) -> float | None:
        """The value on an axis, as `RunTimes.at`."""
        return position(self.panel, self.T, self.m, axis)

    @property
    def median(self) -> Quantile:
        return self.quartiles[1]

    def to_json(self) -> dict[str, Any]:
        """Plain data; `median`, `low` and `high` are `null` if they lie beyond the limit."""
        lower, median, upper = self.quartiles
        return {
            "panel": self.panel,
            "T": self.T,
            "s": self.s,
            "leap": self.leap,
            "m": self.m,
            "median": median.value,
            "low": median.low,
            "high": median.high,
            "lower_quartile": lower.value,
            "upper_quartile": upper.value,
            "solved": self.solved,
            "censored": self.censored,
            "limit": self.limit,
            "share_low": self.share_low,
            "share_high": self.share_high,
        }


def solve_times(times: RunTimes) -> SolveTimes:
    """Quartiles, their intervals and the share of solved runs at one setting."""
    n, solved = times.by.size, int(np.isfinite(times.by).sum())
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(solved, n - solved + 1, tail)) if solved else 0.0
    high = float(betaincinv(solved + 1, n - solved, 1 - tail)) if solved < n else 1.0
    first, second, third = (quantile(times, q) for q in QUARTILES)
    return SolveTimes(
        times.panel, times.T, times.m, times.s, times.limit, (first, second, third),
        solved, n - solved, low, high, times.leap,
    )  # fmt: skip


def quantile(times: RunTimes, q: float, level: float = LEVEL) -> Quantile:
    """The q-quantile of the times with an interval for any distribution (see above)."""
    require(0 < q < 1, "q", "a number between 0 and 1", q)
    n, tail = times.by.size, (1 - level) / 2
    after, by = np.sort(times.after), np.sort(times.by)
    ranks = np.arange(1, n + 1)
    lows = ranks[bdtr(ranks - 1, n, q) <= tail]
    highs = ranks[bdtrc(ranks - 1, n, q) <= tail]
    value = by[math.ceil(n * q) - 1]
    high = by[highs[0] - 1] if highs.size else math.inf
    return Quantile(
        int(value) if math.isfinite(value) else None,
        int(after[lows[-1] - 1]) if lows.size else 0,
        int(high) if math.isfinite(high) else None,
    )


_QUERY = """
    SELECT t.panel, t.T, t.m, r.run_id, r.outcome, r.solved_step, r.steps, r.spec
    FROM trials t JOIN runs r USING (trial_id) WHERE r.restart = 0 AND t.number >= ?
    ORDER BY t.panel, t.T, t.m, t.number
"""


def run_times(store: Store, panel: str | None = None, first: int = 0) -> tuple[RunTimes, ...]:
    """The times of a store by panel, T and m, or those of one panel.

    first: number of the first trial that counts. Learners that are not trained in steps have no
    times. Raises `InputError` if there are no times.
    """
    groups: dict[tuple[str, int, int], list[Any]] = defaultdict(list)
    for row in store.select(_QUERY, first):
        if panel is None or row["panel"] == panel:
            groups[row["panel"], row["T"], row["m"]].append(row)
    if not groups:
        asked = "" if panel is None else f" of panel {panel!r}"
        raise InputError(f"{store.path}: no finished runs{asked}")
    found = [_times_of(store, *key, rows) for key, rows in groups.items()]
    times = tuple(one for one in found if one is not None)
    if not times:
        raise InputError(f"{store.path}: no learner in it is trained in steps")
    return times


def _times_of(store: Store, panel: str, T: int, m: int, rows: Sequence[Any]) -> RunTimes | None:
    spec = store.plain(rows[0]["spec"], f"spec of {rows[0]['run_id']}")
    limit, every = spec.get("steps"), spec.get("eval_every")
    if not isinstance(limit, int) or not isinstance(every, int):
        return None
    by = np.array([math.inf if r["solved_step"] is None else r["solved_step"] for r in rows], float)
    # a run that diverged would not have been solved by its limit: its parameters are NaN
    ended = [limit if r["outcome"] == "diverged" else r["steps"] for r in rows]
    unsolved = np.array(ended, float)
    after = np.where(np.isfinite(by), np.maximum(by - every, 0), unsolved)
    if spec.get("mode") == "online" and isinstance(spec.get("batch_size"), int):
        m = spec["batch_size"]
    s, new_bits = _size(spec.get("task", {}), T)
    return RunTimes(panel, T, m, s, limit, after, by, new_bits)


def _size(task: dict[str, Any], T: int) -> tuple[int | None, int | None]:
    """The number of relevant bits of a task and its leap; `None` if unknown."""
    function, alphabet = task.get("function"), task.get("alphabet", 2)
    if function is None:
        return None, None
    f = parse(function, T, alphabet=alphabet)
    if alphabet != 2:
        return f.s, None
    p = task.get("p")
    return f.s, leap(f, balancing_probability(f) if p is None else p)
