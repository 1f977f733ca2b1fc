"""The relevant bits of a model: pairs of inputs with different decisions, and the bit that decides.

Take two random inputs x, x' whose known relevant bits agree. If the decisions differ, some other
bit matters: walk from x to x' along half of the remaining differences, keep the half at whose ends
the decisions still differ, and after log2 T queries one bit is left whose flip alone changes the
decision. That pair of inputs is a witness: a bit found is relevant for certain, for a model that
answers the same each time. This is assumed, and tested: a witness is asked again, and a model that
then decides otherwise is refused. Group testing: all bits are in every test, so that the number of
queries grows with log T. Search ends when N pairs in a row agree.

Missed bits (ours). Let I be the bits found and Inf_i = P[flipping bit i changes f]. Then

    P[f(x) != f(x') | x_I = x'_I] = 2 E Var(f | x_I) >= 2 E Var(f | all bits but i)
                                  = 2 p (1 - p) Inf_i,       i not in I,

because conditioning on more leaves less variance (with M symbols, all equally likely, 2 p (1 - p)
becomes 1 - 1/M, and a flip is a change to another symbol at random). N agreeing pairs hence miss a
bit of influence theta with probability at most (1 - 2 p (1 - p) theta)^N; stage j of the search has
the share delta / (j (j + 1)) of delta, since every stage may be the last. That is a statement about
the bits found. A bit that is left out of the formula afterwards enters with its own influence,
measured on fresh inputs: its upper binomial limit (`missed`).
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, UInt8

from capax.capacity.complexity.tail_inversion import binomial_upper
from capax.data.distributions import word_threshold
from capax.decompile.reading.oracle import Oracle, same_again

FIRST_PAIRS = 256
WITNESSES = 48
"""Disagreeing pairs that are followed at once."""
STAGES = 60
DROPPED_DELTA = 1e-3


@dataclass(frozen=True)
class Influence:
    """Flipping `bit` changed the decision on `changed` of `n` random inputs."""

    bit: int
    changed: int
    n: int


@dataclass(frozen=True)
class Missed:
    """The largest influence of a bit outside the formula.

    influence: flipping any such bit changes the decision on a smaller share of inputs than this,
    except with probability `delta`. dropped: relevant bits that were left out of the formula.
    complete: False if the search was cut off; then there is no bound.
    """

    influence: float
    delta: float
    dropped: tuple[Influence, ...]
    complete: bool


@dataclass(frozen=True)
class Candidates:
    """Bits with a witness each, and a bound on the influence of missed bits.

    `pairs` agreed in the last stage, `differing` of them did not (0 unless the search was cut off
    at `limit` bits). `missed_influence`: bits of at least this influence are all listed, with
    probability 1 - `delta`.
    """

    bits: tuple[int, ...]
    pairs: int
    differing: int
    missed_influence: float
    delta: float
    complete: bool


def find_candidates(
    model: Oracle,
    rng: np.random.Generator,
    *,
    p: float = 0.5,
    pairs: int = 2000,
    delta: float = 1e-3,
    limit: int = 12,
    hints: tuple[int, ...] = (),
) -> Candidates:
    """All bits whose influence is not tiny, by group testing; at most `limit` of them.

    `hints` (bits with much attention) are tried first, each by a flip on random inputs; a hint
    without a witness is not used.
    """
    found = set(_confirmed(model, rng, p, hints[:limit]))
    differing, checked, complete, stage = 0, 0, False, 0
    while stage < STAGES:
        stage += 1
        known = sorted(found)
        differing, new, checked = _one_stage(model, rng, p, known, pairs)
        if differing == 0:
            complete = True
            break
        found.update(int(bit) for bit in new)
        if len(found) > limit:
            found = set(_strongest(model, rng, p, sorted(found), limit))
            break
    share = delta / (stage * (stage + 1))
    differs = 2 * p * (1 - p) if model.alphabet == 2 else 1 - 1 / model.alphabet
    theta = -math.expm1(math.log(share) / checked) / differs
    return Candidates(tuple(sorted(found)), checked, differing, min(1.0, theta), delta, complete)


def missed(
    found: Candidates, dropped: tuple[Influence, ...], delta: float = DROPPED_DELTA
) -> Missed:
    """The statement for all bits outside the formula: never found, or left out."""
    if not dropped:
        return Missed(found.missed_influence, found.delta, (), found.complete)
    log_share = math.log(delta) - math.log(len(dropped))
    limits = [binomial_upper(one.changed, one.n, log_share) for one in dropped]
    largest = max(found.missed_influence, *limits)
    return Missed(largest, found.delta + delta, dropped, found.complete)


def _one_stage(
    model: Oracle, rng: np.random.Generator, p: float, known: list[int], pairs: int
) -> tuple[int, np.ndarray, int]:
    """Pairs that differ, the bits found from them, and the number of pairs asked about.

    A small sample comes first: if relevant bits are left, it mostly finds them.
    """
    for size in (min(FIRST_PAIRS, pairs), pairs):
        x, y = _pairs(model, rng, size, p, known)
        at_x, at_y = model(x), model(y)
        differ = np.flatnonzero(at_x != at_y)
        if len(differ):
            chosen = differ[:WITNESSES]
            return len(differ), bisect(model, x[chosen], y[chosen], at_x[chosen]), size
    return 0, np.empty(0, np.int64), pairs


def _pairs(
    model: Oracle, rng: np.random.Generator, n: int, p: float, known: list[int]
) -> tuple[UInt8[np.ndarray, "n T"], UInt8[np.ndarray, "n T"]]:
    x, y = random_inputs(model, rng, n, p), random_inputs(model, rng, n, p)
    y[:, known] = x[:, known]
    return x, y


def bisect(
    model: Oracle,
    x: UInt8[np.ndarray, "n T"],
    y: UInt8[np.ndarray, "n T"],
    at_x: Bool[np.ndarray, " n"],
) -> np.ndarray:
    """For each pair with different decisions, a bit whose flip alone changes the decision.

    The differing bits of a pair are put in order; input number c has the first c of them from y.
    The decision at `low` is that of x, at `high` it is not; the interval is halved until it holds
    one bit.
    """
    changed = x != y
    order = np.cumsum(changed, axis=1)  # 1-based rank of each differing bit
    low, high = np.zeros(len(x), np.int64), order[:, -1].astype(np.int64)
    while (high - low > 1).any():
        middle = (low + high) // 2
        hybrid = np.where(changed & (order <= middle[:, None]), y, x)
        as_x = model(hybrid) == at_x
        low, high = np.where(as_x, middle, low), np.where(as_x, high, middle)
    for rank, expected in ((low, at_x), (high, ~at_x)):
        same_again(model, np.where(changed & (order <= rank[:, None]), y, x), expected)
    return (changed & (order == high[:, None])).argmax(axis=1)


def influences(
    model: Oracle, rng: np.random.Generator, bits: tuple[int, ...], *, p: float, n: int
) -> tuple[Influence, ...]:
    """For each bit, how many of n random inputs change the decision when it is flipped."""
    x = random_inputs(model, rng, n, p)
    base = model(x)
    found = []
    for bit in bits:
        flipped = x.copy()
        if model.alphabet == 2:
            flipped[:, bit] ^= 1
        else:
            flipped[:, bit] = _another(rng, x[:, bit], model.alphabet)
        found.append(Influence(bit, int((model(flipped) != base).sum()), n))
    return tuple(found)


def _another(rng: np.random.Generator, symbols: np.ndarray, M: int) -> np.ndarray:
    """Another symbol for each, at random."""
    return ((symbols.astype(np.int64) + rng.integers(1, M, len(symbols))) % M).astype(np.uint8)


def random_inputs(
    model: Oracle, rng: np.random.Generator, n: int, p: float
) -> UInt8[np.ndarray, "n T"]:
    """n inputs of a model: Bernoulli(p) bits, or symbols that are all equally likely."""
    if model.alphabet == 2:
        return random_bits(rng, n, model.T, p)
    return rng.integers(0, model.alphabet, (n, model.T), dtype=np.uint8)


def random_bits(rng: np.random.Generator, n: int, T: int, p: float) -> UInt8[np.ndarray, "n T"]:
    """n inputs of T independent Bernoulli(p) bits, p to within 2^-32."""
    if p == 0.5:
        return rng.integers(0, 2, (n, T), dtype=np.uint8)
    words = rng.integers(0, 1 << 32, (n, T), dtype=np.uint32)
    return (words < np.uint32(word_threshold(p))).astype(np.uint8)


def _confirmed(
    model: Oracle, rng: np.random.Generator, p: float, hints: tuple[int, ...]
) -> list[int]:
    if not hints:
        return []
    return [one.bit for one in influences(model, rng, hints, p=p, n=64) if one.changed]


def _strongest(
    model: Oracle, rng: np.random.Generator, p: float, bits: list[int], limit: int
) -> list[int]:
    """The `limit` bits of largest measured influence."""
    counted = influences(model, rng, tuple(bits), p=p, n=512)
    return [one.bit for one in sorted(counted, key=lambda one: -one.changed)[:limit]]
