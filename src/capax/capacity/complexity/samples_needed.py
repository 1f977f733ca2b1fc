"""The smallest number of samples at which a bound reaches a target, found exactly."""

from collections.abc import Callable

from capax.errors import require

MOST = 10**300


def samples_needed(value_at: Callable[[int], float], target: float) -> int | None:
    """The m with value_at(m) <= target < value_at(m - 1), for a value that falls with m.

    Doubles until the target is reached, then bisects over integers; the returned m has been
    evaluated. None when even 10^300 samples would not do. Raises InputError for a target <= 0.
    """
    require(0 < target < 1, "target", "a number strictly between 0 and 1", target)
    high = 1
    while value_at(high) > target:
        if high >= MOST:
            return None
        high = min(MOST, high * (4 if high < 10**9 else 10**3))
    low = 0
    while high - low > 1:
        middle = (low + high) // 2 if high < 10**15 or high < 4 * low else _between(low, high)
        if value_at(middle) <= target:
            high = middle
        else:
            low = middle
        if high - low <= high // 10**12:
            return high
    return high


def _between(low: int, high: int) -> int:
    """An integer near the geometric mean, for ranges of many orders of magnitude."""
    middle = max(low, 1) * 2 ** ((high // max(low, 1)).bit_length() // 2)
    return min(max(middle, low + 1), high - 1)
