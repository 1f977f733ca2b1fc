"""Two estimates of m* with intervals: do they differ beyond chance?

On the log scale the difference of two estimates has the variance s1² + s2², with
s = log(high/low)/(2 z); they differ when it exceeds the normal quantile at level 5% shared among
all comparisons (Bonferroni). An open side counts only if it leaves the other interval on the wrong
side.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Interval:
    """m* with its 95% interval; `None` on an open side.

    log_width: log(high / low) before the ends were moved to tried m, if they were: two estimates on
    the same m have the same error between them.
    """

    m: float | None
    low: float | None
    high: float | None
    log_width: float | None = None

    def __str__(self) -> str:
        sides = ("open" if side is None else f"{side:.0f}" for side in (self.low, self.high))
        return f"{'no m*' if self.m is None else f'{self.m:.0f}'} [{', '.join(sides)}]"

    @property
    def error(self) -> float | None:
        """Standard error of log m*; `None` unless both sides are closed."""
        if not self.low or not self.high:
            return None
        width = math.log(self.high / self.low) if self.log_width is None else self.log_width
        return width / (2 * _Z)


def agree(mine: Interval, other: Interval, *, comparisons: int = 1) -> bool:
    """No difference beyond chance, at level 5% shared among `comparisons`."""
    one, two = mine.error, other.error
    if mine.m and other.m and one is not None and two is not None:
        limit = NormalDist().inv_cdf(1 - 0.025 / comparisons)
        return abs(math.log(mine.m / other.m)) <= limit * math.hypot(one, two)
    below = mine.high is not None and other.low is not None and mine.high < other.low
    above = mine.low is not None and other.high is not None and mine.low > other.high
    return not (below or above)
