"""The floor under a threshold: how many examples the best possible learner needs.

A floor belongs to a protocol: a family of supports, a number of guesses, a rate of flipped labels,
an accuracy. Under a uniform prior the posterior is uniform on the version space V_m, so a learner
that may offer K rules and learns whether one is right (as restarts with validation data do)
succeeds with probability at most

    c(m) = E[min(1, K / |V_m|)],        with flipped labels E[mass of the K likeliest rules],

and the floor is the smallest m with c(m) >= target. c never falls with m. The floor lies between
the counting bound (K 2^m >= target · N, N placements) and the union bound, where the target is
reached for certain. c is simulated for every m of that range on a few samples, then around the
crossing on more, until no m around it is in doubt or all draws are used. `low` and `high` are the
smallest and the largest m that the simulation leaves possible (95%).

An accuracy below 1 does not require the rule, and c is then a bound in one case only. A rule h
with error at most e for two placements makes them differ on at most 2 e of the inputs. Where any
two placements differ on more than that, h is good for one of them at most, and c bounds the chance
of every learner as before. Errors are shares of n validation inputs, so all pairs must differ on
more than 2 e of these: by Hoeffding's inequality and a union bound they do, except with a chance of
N² exp(-2 n (q - 2e)²) / 2, q the smallest difference of two placements. Else there is no floor.

There is also no floor if the support is fixed or in the formula (a learner may know it), or if the
simulation is too large. Bounds such as Fano's lie below the floor and never replace it.

If ambiguous samples are redrawn, no floor exists beyond "one rule left": every sample identifies
the rule. The number is then the m of the best learner on samples that are not redrawn: a reference,
not a floor.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from capax.boolean.best_possible.best_learner import chances
from capax.boolean.best_possible.disagreement import log_num_placements, rivals, union_sample_size
from capax.boolean.best_possible.limits import counting_sample_size, fano
from capax.boolean.functions import SparseFunction
from capax.boolean.parser import parse
from capax.errors import InfeasibleError, require
from capax.identity import key_words

_PILOT = 48  # samples on which c(m) is simulated for every m of the range
_AROUND = 3  # values of m on either side of the crossing that are simulated further
_IN_DOUBT = 2.5  # standard errors within which c(m) is not yet distinguished from the target
_Z = 1.96
_NEGLIGIBLE = math.log(1e-6)


@dataclass(frozen=True)
class Protocol:
    """The rules of a trial: `guesses` K, redrawn ambiguous samples, flipped labels, supports.

    A trial passes at `accuracy`, a share of `validation_size` inputs. `supports` is "random",
    "contiguous", or "fixed" if a learner may know the positions.
    """

    guesses: int = 1
    rejection: bool = False
    noise: float = 0.0
    supports: Literal["random", "contiguous", "fixed"] = "random"
    accuracy: float = 1.0
    validation_size: int = 10_000

    def __post_init__(self) -> None:
        require(self.guesses >= 1, "guesses", "at least 1", self.guesses)
        require(0 <= self.noise < 0.5, "noise", "0 <= noise < 1/2", self.noise)
        known = self.supports in ("random", "contiguous", "fixed")
        require(known, "supports", "random, contiguous or fixed", self.supports)
        require(0 < self.accuracy <= 1, "accuracy", "a share in (0, 1]", self.accuracy)


@dataclass(frozen=True)
class Floor:
    """m of the best learner; `is_floor`: no learner can do better under the protocol.

    `low` and `high`: the m that the simulation leaves possible (95%). `chance` is c(m), `below` is
    c(m - 1), each with its standard error; `draws` samples were simulated.
    """

    m: int
    low: int
    high: int
    chance: float
    chance_error: float
    below: float
    below_error: float
    draws: int
    is_floor: bool
    label: str


def floor(
    function: str,
    T: int,
    p: float,
    target: float = 0.8,
    draws: int = 800,
    *,
    protocol: Protocol | None = None,
) -> Floor | None:
    """Smallest m at which the best learner succeeds with probability `target`.

    `None` if the protocol has no floor, or if it cannot be simulated.
    """
    protocol = protocol or Protocol()
    f = parse(function).relevant()
    if protocol.supports == "fixed" or not must_identify(f, T, p, protocol):
        return None
    rules = (protocol.guesses, protocol.noise, protocol.supports)
    around = _chances_around(function, T, p, target, draws, *rules)
    return None if around is None else _read(*around, target, protocol)


@lru_cache(maxsize=256)
def _chances_around(
    function: str,
    T: int,
    p: float,
    target: float,
    draws: int,
    guesses: int,
    noise: float,
    supports: Literal["random", "contiguous"],
) -> tuple[Float[ndarray, "draws sizes"], int] | None:
    """Samples of c(m) around the floor, and the first m; `None` if it cannot be simulated."""
    f = parse(function).relevant()
    try:
        high = union_sample_size(f, T, 1 - target, p, noise=noise)
        low = counting_sample_size(f, T, target, guesses=guesses, supports=supports)
        rules = {"guesses": guesses, "noise": noise, "supports": supports}
        simulate = partial(_simulated, function, T, p, **rules)
        return _around_crossing(simulate, max(0, min(low, high) - 1), high, target, draws)
    except InfeasibleError:
        return None


def must_identify(f: SparseFunction, T: int, p: float, protocol: Protocol) -> bool:
    """Does passing at this accuracy require the rule itself? Up to a chance of 1e-6."""
    if protocol.accuracy == 1:
        return True
    try:
        nearest = min((kind.q for kind in rivals(f, T, p)), default=1.0)
    except InfeasibleError:
        return False
    gap = nearest - 2 * (1 - protocol.accuracy)
    pairs = 2 * log_num_placements(f, T) - math.log(2.0)
    return gap > 0 and pairs - 2 * protocol.validation_size * gap**2 <= _NEGLIGIBLE


def fewest_examples(
    function: str, T: int, p: float, target: float = 0.8, *, protocol: Protocol
) -> int:
    """A bound below the floor without simulation: the start of a search for a threshold.

    Fano's bound; for contiguous supports the counting bound.
    """
    f = parse(function).relevant()
    if protocol.supports == "random":
        m = fano(f, T, 1 - target, p, guesses=protocol.guesses, noise=protocol.noise)
        return max(1, math.ceil(m))
    counted = counting_sample_size(f, T, target, guesses=protocol.guesses, supports="contiguous")
    return max(1, counted)


def describe(protocol: Protocol) -> str:
    """The name of the curve, with its protocol."""
    guesses = "1 guess" if protocol.guesses == 1 else f"{protocol.guesses} guesses"
    noise = f", labels flipped with {protocol.noise:g}" if protocol.noise else ""
    supports = ", contiguous supports" if protocol.supports == "contiguous" else ""
    return f"best learner, {guesses}, no redraw{supports}{noise}"


def _simulated(
    function: str, T: int, p: float, first: int, last: int, draws: int, batch: int, **rules: Any
) -> Float[ndarray, "draws sizes"]:
    """Samples of c(m) for m = first .. last; every batch has its own key."""
    key = key_words([function, T, p, batch, sorted(rules.items())], "floor")
    return chances(parse(function), T, p, first=first, last=last, draws=draws, key=key, **rules)


def _around_crossing(
    simulate: Callable[..., Float[ndarray, "draws sizes"]],
    low: int,
    high: int,
    target: float,
    draws: int,
) -> tuple[Float[ndarray, "draws sizes"], int]:
    """Samples of c(m) for the m around its crossing with the target, and the first of these m."""
    middle = low + _crossing(simulate(low, high, min(_PILOT, draws), 0), target)
    batch = 1
    while True:
        first, last = max(low, middle - _AROUND), min(high, middle + _AROUND)
        found = simulate(first, last, min(200, draws), batch)
        batch += 1
        while len(found) < draws and _doubtful(found, target):
            found = np.concatenate([found, simulate(first, last, len(found), batch)])
            batch += 1
        crossing = first + _crossing(found, target)
        inside = (first == low or crossing > first) and (crossing < last or last == high)
        if inside:
            return found, first
        middle = crossing


def _crossing(found: Float[ndarray, "draws sizes"], target: float) -> int:
    """Index of the first m whose mean chance reaches the target, or else the last index."""
    reached = found.mean(axis=0) >= target
    return int(reached.argmax()) if reached.any() else found.shape[1] - 1


def _errors(found: Float[ndarray, "draws sizes"]) -> Float[ndarray, " sizes"]:
    """Standard errors of the means; if all samples are equal, with one different sample added."""
    return np.maximum(found.std(axis=0), 1 / math.sqrt(len(found))) / math.sqrt(len(found))


def _doubtful(found: Float[ndarray, "draws sizes"], target: float) -> bool:
    return bool((np.abs(found.mean(axis=0) - target) < _IN_DOUBT * _errors(found)).any())


def _read(
    found: Float[ndarray, "draws sizes"], first: int, target: float, protocol: Protocol
) -> Floor:
    """The floor from samples of c(m) around it."""
    mean, error, at = found.mean(axis=0), _errors(found), _crossing(found, target)
    possible = first + np.flatnonzero(mean + _Z * error >= target)
    certain = first + np.flatnonzero(mean - _Z * error >= target)
    m = first + at
    return Floor(
        m=m,
        low=int(possible[0]) if len(possible) else m,
        high=int(certain[0]) if len(certain) else first + len(mean) - 1,
        chance=float(mean[at]),
        chance_error=float(error[at]),
        below=float(mean[at - 1]) if at else 0.0,
        below_error=float(error[at - 1]) if at else 0.0,
        draws=len(found),
        is_floor=not protocol.rejection,
        label=describe(protocol),
    )
