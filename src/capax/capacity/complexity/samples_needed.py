"""The smallest number of samples at which a bound reaches a target, found exactly."""

import math
from bisect import bisect_left
from collections.abc import Callable

from capax.errors import require

MOST = 10**300
_STEPS = (
    *(16**k for k in range(8)),
    *(16**8 * 10 ** (3 * k) for k in range(97)),
    MOST,
)


def samples_needed(
    value_at: Callable[[int], float], target: float, *, log_guess: float = 0.0
) -> int | None:
    """The m with value_at(m) <= target < value_at(m - 1), for a value that falls with m.

    Multiplies until the target is reached, then closes in from both sides; the returned m has been
    evaluated (beyond 10^12 it is the smallest up to that precision). None when even 10^300 samples
    are too few. Raises InputError for a target <= 0. `log_guess`: a first guess of ln m. It changes
    the time, never the answer.

    Bounds fall like a power of m, so ln(value / target) is nearly straight in ln m. The next m is
    where the chord crosses 0, with half the height of an end that stayed twice (the Illinois rule),
    or the middle if that did not halve the interval: a dozen values of m instead of fifty.
    """
    require(0 < target < 1, "target", "a number strictly between 0 and 1", target)
    heights: dict[int, float] = {}

    def above_target(step: int) -> bool:
        heights[step] = _height(value_at(_STEPS[step]), target)
        return heights[step] > 0

    last = len(_STEPS) - 1
    step = min(last, bisect_left(_STEPS, math.exp(min(max(log_guess, 0.0), 690.0))))
    while above_target(step):
        if step == last:
            return None
        step += 1
    while step > 0 and step - 1 not in heights and not above_target(step - 1):
        step -= 1
    high, below = _STEPS[step], heights[step]
    low, above = (_STEPS[step - 1], heights[step - 1]) if step else (0, math.inf)
    kept, halve = "", False
    while (width := high - low) > max(1, high // 10**12):
        middle = _half_way(low, high) if halve else _crossing(low, above, high, below)
        height = _height(value_at(middle), target)
        if height <= 0:
            high, below = middle, height
            above /= 2 if kept == "low" else 1
            kept = "low"
        else:
            low, above = middle, height
            below /= 2 if kept == "high" else 1
            kept = "high"
        halve = not halve and 2 * (high - low) > width
    return high


def _height(value: float, target: float) -> float:
    """ln(value / target): positive above the target."""
    return math.log(value / target) if value > 0 else -math.inf


def _crossing(low: int, above: float, high: int, below: float) -> int:
    """Where the chord from (low, above > 0) to (high, below <= 0) meets 0; strictly between."""
    if low == 0 or math.isinf(above) or math.isinf(below):
        return _half_way(low, high)
    part = above / (above - below)
    if high < 2 * low:
        middle = low + int(part * (high - low))
    else:
        middle = int(low * math.exp(part * math.log(high / low)))
    return min(max(middle, low + 1), high - 1)


def _half_way(low: int, high: int) -> int:
    """The mean, or for ranges of orders of magnitude an integer near the geometric mean."""
    if high < 4 * low:
        return (low + high) // 2
    middle = max(low, 1) * 2 ** ((high // max(low, 1)).bit_length() // 2)
    return min(max(middle, low + 1), high - 1)
