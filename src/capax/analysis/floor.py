"""The floor under a threshold: how many examples the best possible learner needs.

A floor belongs to a protocol. Under a uniform prior the posterior is uniform on the version space
V_m, so a learner that may offer K rules and is told whether one is right (restarts judged on
validation data are such offers) succeeds with probability at most

    E[min(1, K / |V_m|)],

and the floor is the smallest m where that reaches the target. It is searched between the counting
bound (K 2^m >= target · N, N placements), below which no learner gets, and the union bound, where
the target is reached for certain; a straight line through the simulated chances of the m around it
takes most of the noise out.

Where the simulation cannot go (noisy labels, functions other than AND and OR at large T), Fano's
inequality for lists of K stands in, a lower floor; then for every T of the panel, so that no column
mixes the two.

Where ambiguous samples are redrawn, no floor exists beyond "one rule left": every sample that is
shown singles out the rule. The number is then what the best learner needs on samples as they come:
a reference, not a floor.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from capax.boolean.best_possible.best_learner import best_learner
from capax.boolean.best_possible.disagreement import union_sample_size
from capax.boolean.best_possible.limits import counting_sample_size, fano
from capax.boolean.best_possible.one_rule_left import probability_as_conjunction
from capax.boolean.functions import SparseFunction
from capax.boolean.parser import parse
from capax.errors import InputError, require
from capax.identity import key_words

_LARGEST_SEARCHED = 300
_AROUND = 2  # values of m on either side for the straight line
_ROUGHLY = 32  # draws that are enough to find the neighbourhood


@dataclass(frozen=True)
class Protocol:
    """What a trial allows: `guesses` K, ambiguous samples redrawn or not, flipped labels.

    `largest_T` is the largest T of the same curve: all its points are found in the same way.
    """

    guesses: int = 1
    rejection: bool = False
    noise: float = 0.0
    largest_T: int = 0

    def __post_init__(self) -> None:
        require(self.guesses >= 1, "guesses", "at least 1", self.guesses)
        require(0 <= self.noise < 0.5, "noise", "0 <= noise < 1/2", self.noise)


@dataclass(frozen=True)
class Floor:
    """m of the best learner; `is_floor` says whether no learner can do better under the protocol.

    `method` is "simulated" or "Fano" (a lower bound).
    """

    m: int
    method: str
    is_floor: bool
    label: str


@lru_cache(maxsize=256)
def floor(
    function: str,
    T: int,
    p: float,
    target: float = 0.8,
    draws: int = 160,
    *,
    protocol: Protocol | None = None,
) -> Floor:
    """Smallest m at which the best learner succeeds with probability `target`."""
    protocol = protocol or Protocol()
    f = parse(function)
    simulated = protocol.noise == 0 and (
        max(T, protocol.largest_T) <= _LARGEST_SEARCHED or _is_and_or_or(f, p)
    )
    m = (
        _simulated(function, T, p, target, draws, protocol.guesses)
        if simulated
        else max(
            1, math.ceil(fano(f, T, 1 - target, p, guesses=protocol.guesses, noise=protocol.noise))
        )
    )
    method = "simulated" if simulated else "Fano"
    return Floor(m, method, not protocol.rejection, describe(protocol, method))


def describe(protocol: Protocol, method: str = "simulated") -> str:
    """The name of the curve: whose number it is, and under which protocol."""
    guesses = "1 guess" if protocol.guesses == 1 else f"{protocol.guesses} guesses"
    name = "best learner" if method == "simulated" else "Fano bound"
    noise = f", labels flipped with {protocol.noise:g}" if protocol.noise else ""
    return f"{name}, {guesses}, no redraw{noise}"


def _simulated(function: str, T: int, p: float, target: float, draws: int, guesses: int) -> int:
    f = parse(function)
    high = union_sample_size(f, T, 1 - target, p)
    low = min(high, counting_sample_size(f, T, target, guesses=guesses)) - 1
    roughly = partial(_chance, function, T, p, min(_ROUGHLY, draws), guesses)
    m = _lowest(lambda m: roughly(m) >= target, max(0, low), high)
    return min(high, _on_a_line(partial(_chance, function, T, p, draws, guesses), m, target))


def _is_and_or_or(f: SparseFunction, p: float) -> bool:
    try:
        probability_as_conjunction(f, p)
    except InputError:
        return False
    return True


def _chance(function: str, T: int, p: float, draws: int, guesses: int, m: int) -> float:
    key = key_words([function, T, m, p], "floor")
    f, limit = parse(function), max(50, 20 * guesses)
    found = best_learner(f, T, m, p, draws=draws, limit=limit, guesses=guesses, key=key)
    return found.identification


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
