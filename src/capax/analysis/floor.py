"""The floor under a threshold: how many examples the best possible learner needs.

Under a uniform prior the best learner names I with probability E[1/|V_m|], V_m the version space;
the floor is the smallest m where that reaches the target. It is found downwards from the union
bound, where the target is reached for certain; a straight line through the simulated chances of the
m around it then takes most of the noise out.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial

import numpy as np

from capax.boolean.best_learner import best_learner
from capax.boolean.disagreement import union_sample_size
from capax.boolean.functions import SparseFunction
from capax.boolean.limits import fano
from capax.boolean.one_rule_left import probability_as_conjunction
from capax.boolean.parser import parse
from capax.errors import InputError
from capax.identity import key_words

_LARGEST_SEARCHED = 300
_AROUND = 3  # values of m on either side for the straight line


@lru_cache(maxsize=256)
def floor(function: str, T: int, p: float, target: float = 0.8, draws: int = 128) -> int:
    """Smallest m at which the best learner succeeds with probability `target` (Monte Carlo).

    AND and OR are simulated at any T, other functions only up to T = 300: beyond, Fano's
    inequality is used instead, which is also a floor, a lower one.
    """
    f = parse(function)
    high = union_sample_size(f, T, 1 - target, p)
    if T > _LARGEST_SEARCHED and not _is_and_or_or(f, p):
        return max(1, math.ceil(fano(f, T, 1 - target, p)))
    chance = cache(partial(_chance, function, T, p, draws))
    m = _lowest(lambda m: chance(m) >= target, max(0, high // 2), high)
    return min(high, _on_a_line(chance, m, target))


def _is_and_or_or(f: SparseFunction, p: float) -> bool:
    try:
        probability_as_conjunction(f, p)
    except InputError:
        return False
    return True


def _chance(function: str, T: int, p: float, draws: int, m: int) -> float:
    key = key_words([function, T, m, p], "floor")
    return best_learner(parse(function), T, m, p, draws=draws, key=key).identification


def _lowest(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest m in (low, high] where `holds`, taken to be monotone and true at `high`.

    Walks down in doubling steps first: small m are the costly ones to simulate.
    """
    step = 1
    while high - step > low and holds(high - step):
        high, step = high - step, 2 * step
    low = max(low, high - step)
    while high - low > 1:
        middle = (low + high + 1) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _on_a_line(chance: Callable[[int], float], m: int, target: float) -> int:
    """Where the line through the chances around m reaches the target; m itself if none rises."""
    around = np.arange(max(1, m - _AROUND), m + _AROUND + 1)
    slope, start = np.polyfit(around, [chance(int(n)) for n in around], 1)
    if slope <= 0:
        return m
    return int(np.clip(math.ceil((target - start) / slope), around[0], around[-1]))
