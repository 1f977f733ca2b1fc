"""The floor under a threshold: how many examples the best possible learner needs.

Under a uniform prior the best learner names I with probability E[1/|V_m|], V_m the version space;
the floor is the smallest m where that reaches the target. It is found downwards from the union
bound, where the target is reached for certain.
"""

from collections.abc import Callable
from functools import lru_cache

from capax.boolean.best_learner import best_learner
from capax.boolean.disagreement import union_sample_size
from capax.boolean.limits import fano
from capax.boolean.parser import parse
from capax.errors import InfeasibleError
from capax.identity import key_words


@lru_cache(maxsize=256)
def floor(function: str, T: int, p: float, target: float = 0.8, draws: int = 128) -> int:
    """Smallest m at which the best learner succeeds with probability `target` (Monte Carlo).

    Where the version space cannot be simulated at this T, Fano's inequality is used instead: also
    a floor, a lower one.
    """
    f = parse(function)
    high = union_sample_size(f, T, 1 - target, p)
    try:
        return _lowest(lambda m: _best(function, T, m, p, draws) >= target, max(1, high // 2), high)
    except InfeasibleError:
        return max(1, int(-(-fano(f, T, 1 - target, p) // 1)))


def _best(function: str, T: int, m: int, p: float, draws: int) -> float:
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
