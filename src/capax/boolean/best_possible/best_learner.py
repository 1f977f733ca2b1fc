"""The best possible learner: its chance to name the support after m examples.

Under a uniform prior on the placements the posterior is uniform on the version space V_m, so the
best chance to name I exactly is E[1/|V_m|], which lies between P(|V_m| = 1) and (1 + P(..))/2.
With K guesses, one of which must be right, it is E[min(1, K/|V_m|)].

Examples arrive one after the other, so one simulated sample gives |V_m| for every m in a range, and
the chance never falls with m. AND and OR are simulated exactly for any T, also 10^6: draw the
relevant bits; the number of irrelevant columns that are 1 on the n_1 positives among the first
examples is Binomial(T - s, p^n_1); only these can occur in a consistent placement; draw their other
bits and count. For other functions the whole sample is drawn, so T is limited by the search.

Where labels are flipped with probability e, a placement with k errors has the posterior weight
(e/(1 - e))^k, and K guesses succeed with the mass of the K heaviest placements. (Ours.)
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from capax.boolean.best_possible.disagreement import check_length
from capax.boolean.best_possible.listed_placements import (
    Supports,
    all_placements,
    num_placements,
    refuted_at,
)
from capax.boolean.best_possible.one_rule_left import probability_as_conjunction
from capax.boolean.consistent.survivors import survivors_up_to
from capax.boolean.functions import SparseFunction, only_bits
from capax.boolean.named_functions import conjunction
from capax.boolean.random_functions import Key, generator
from capax.errors import InfeasibleError, InputError, require

_MAX_WORK, _MAX_WORK_OF_AND = 30_000_000, 20_000_000_000
"""Machine words that the search in one sample may read. Hundreds of samples are searched, so each
may take a tenth of a second. For an AND most need a millisecond, and a rare large one may take half
a minute."""
_FEW = 5_000  # placements up to which listing all of them is faster than a search
_MOST_LISTED = 20_000_000  # placements times examples, if no search is possible
_MOST_WEIGHED = 2_000_000  # the same with flipped labels, where every placement keeps a weight
_MOST_BITS = 20_000_000  # of one sample, if all its bits are drawn


@dataclass(frozen=True)
class BestLearner:
    """E[min(1, K/|V_m|)] and P(|V_m| = 1) from `draws` samples.

    Version spaces larger than the limit are counted as the limit, so that `identification` is too
    large by at most `truncation`.
    """

    identification: float
    identification_error: float
    one_left: float
    one_left_error: float
    truncation: float
    draws: int


def best_learner(
    f: SparseFunction,
    T: int,
    m: int,
    p: float,
    *,
    draws: int = 200,
    limit: int = 50,
    guesses: int = 1,
    key: Key,
) -> BestLearner:
    """Simulate |V_m| and average min(1, K/|V_m|), counting up to `limit` placements.

    Raises `InfeasibleError` when f is neither AND nor OR and T is too large to search.
    """
    require(1 <= guesses <= limit, "guesses", f"1 to limit = {limit}", guesses)
    sizes = version_space_sizes(f, T, p, first=m, last=m, draws=draws, limit=limit, key=key)[:, 0]
    chance, alone = np.minimum(1.0, guesses / sizes), (sizes == 1).astype(np.float64)
    return BestLearner(
        identification=float(chance.mean()),
        identification_error=float(chance.std()) / math.sqrt(draws),
        one_left=float(alone.mean()),
        one_left_error=float(alone.std()) / math.sqrt(draws),
        truncation=float((sizes == limit).mean()) * guesses / limit,
        draws=draws,
    )


def chances(
    f: SparseFunction,
    T: int,
    p: float,
    *,
    first: int,
    last: int,
    draws: int,
    guesses: int = 1,
    noise: float = 0.0,
    supports: Supports = "random",
    key: Key,
) -> Float[np.ndarray, "draws sizes"]:
    """The best learner's chance to name the placement in simulated samples, for m = first .. last.

    Its mean over the draws is E[min(1, K/|V_m|)], or with noise the mass of the K heaviest
    placements. Without noise, version spaces are counted up to 50 K: each entry is too large by at
    most 1/50.
    """
    only_bits(f)
    require(guesses >= 1, "guesses", "at least 1", guesses)
    require(0.0 <= noise < 0.5, "noise", "0 <= noise < 1/2", noise)
    if noise:
        return _noisy_chances(f, T, p, first, last, draws, guesses, noise, supports, key)
    sizes = version_space_sizes(
        f, T, p, first=first, last=last, draws=draws, limit=50 * guesses, supports=supports, key=key
    )
    return np.minimum(1.0, guesses / sizes)


def version_space_sizes(
    f: SparseFunction,
    T: int,
    p: float,
    *,
    first: int,
    last: int,
    draws: int,
    limit: int,
    supports: Supports = "random",
    key: Key,
) -> Int[np.ndarray, "draws sizes"]:
    """min(|V_m|, limit) of simulated samples, for m = first, .., last along each sample.

    Raises `InfeasibleError` where no way to count is fast enough.
    """
    check_length(f, T)
    require(0.0 < p < 1.0, "p", "0 < p < 1", p)
    require(0 <= first <= last, "m", "a number of examples >= 0", first)
    require(draws >= 2, "draws", "at least 2", draws)
    require(limit >= 2, "limit", "at least 2", limit)
    random, g = generator(key=key), f.relevant()
    g = g.on(range(g.s))
    as_and = _as_conjunction(g, p) if supports == "random" else None
    if supports == "contiguous":
        _refuse_long_lists(g, T, last, supports, _MOST_LISTED)
    if as_and is None and last * T > _MOST_BITS:
        raise InfeasibleError(f"T: samples of {last} inputs of length {T} are too large to draw")
    sizes, whole = [], conjunction(range(g.s))
    for _ in range(draws):
        if as_and is not None:
            X, y = _conjunction_sample(T, g.s, first, last, as_and, random)
            sizes.append(_sizes_along(whole, X, y, first, limit, "random"))
        else:
            X = random.random((last, T)) < p
            y = g.on(_drawn_placement(g, T, supports, random), T)(X)
            sizes.append(_sizes_along(g, X, y, first, limit, supports))
    return np.array(sizes)


def _as_conjunction(f: SparseFunction, p: float) -> float | None:
    """p if f is an AND, 1 - p if it is an OR (an AND of flipped bits), otherwise `None`."""
    try:
        return probability_as_conjunction(f, p)
    except InputError:
        return None


def _refuse_long_lists(f: SparseFunction, T: int, m: int, supports: Supports, most: int) -> None:
    number = num_placements(f, T, supports)
    if number * max(1, m) > most:
        raise InfeasibleError(
            f"T: {number} placements times {m} examples are too many to list, at most {most:.0e}"
        )


def _drawn_placement(
    f: SparseFunction, T: int, supports: Supports, random: np.random.Generator
) -> tuple[int, ...]:
    """The true placement: the first one, since all placements are equivalent by symmetry."""
    if supports == "random":
        return tuple(range(f.s))
    placements = all_placements(f, T, supports)
    return tuple(placements[int(random.integers(len(placements)))].tolist())


def _conjunction_sample(
    T: int, s: int, first: int, last: int, p: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Bits and labels of an AND on its own columns and on those not refuted by `first` examples."""
    relevant = random.random((last, s)) < p
    y = np.asarray(relevant.all(axis=1))
    positive = y & (np.arange(last) < first)
    alive = int(random.binomial(T - s, p ** int(positive.sum())))
    others = (random.random((last, alive)) < p) | positive[:, None]
    return np.concatenate([relevant, others], axis=1), y.astype(np.float64)


def _sizes_along(
    f: SparseFunction, X: np.ndarray, y: np.ndarray, first: int, limit: int, supports: Supports
) -> Int[np.ndarray, " sizes"]:
    """min(|V_m|, limit) for m = first .. len(y).

    |V_m| is counted from one list: the placements left at the smallest m with fewer than `limit`
    of them, each with the example that refutes it.
    """
    last, columns = len(y), X.shape[1]
    start = first
    if supports == "contiguous" or num_placements(f, columns) <= _FEW:
        survived = refuted_at(f, X, y, all_placements(f, columns, supports))
    else:
        start, placements = _first_list(f, X, y, first, limit)
        survived = refuted_at(f, X, y, placements)
    sizes = (survived[None, :] >= np.arange(start, last + 1)[:, None]).sum(axis=1)
    return np.concatenate([np.full(start - first, limit), np.minimum(sizes, limit)])


def _first_list(
    f: SparseFunction, X: np.ndarray, y: np.ndarray, first: int, limit: int
) -> tuple[int, Int[np.ndarray, "n s"]]:
    """The smallest m from `first` on with |V_m| < limit, and V_m; all of y if no m is such."""

    work = _MAX_WORK_OF_AND if f == conjunction(range(f.s)) else _MAX_WORK

    def listed(m: int) -> np.ndarray:
        return survivors_up_to(f, X[:m], y[:m], limit, max_work=work)

    found = listed(first)
    if len(found) < limit:
        return first, found
    low, high, found = first, len(y), listed(len(y))
    while high - low > 1:
        middle = (low + high) // 2
        here = listed(middle)
        if len(here) < limit:
            high, found = middle, here
        else:
            low = middle
    return high, found


def _noisy_chances(
    f: SparseFunction,
    T: int,
    p: float,
    first: int,
    last: int,
    draws: int,
    guesses: int,
    noise: float,
    supports: Supports,
    key: Key,
) -> Float[np.ndarray, "draws sizes"]:
    """Posterior mass of the `guesses` heaviest placements, by listing all of them."""
    check_length(f, T)
    require(f.is_boolean, "function", "a Boolean function", f)
    require(0.0 < p < 1.0, "p", "0 < p < 1", p)
    g = f.relevant()
    g = g.on(range(g.s))
    _refuse_long_lists(g, T, last, supports, _MOST_WEIGHED)
    placements, random = all_placements(g, T, supports), generator(key=key)
    found = np.empty((draws, last - first + 1))
    for d in range(draws):
        X = random.random((last, T)) < p
        truth = placements[int(random.integers(len(placements)))]
        rows = sum(X[:, placements[:, i]].astype(np.int64) << i for i in range(g.s))
        y = g.table[sum(X[:, truth[i]].astype(np.int64) << i for i in range(g.s))]
        seen = y.astype(bool) ^ (random.random(last) < noise)
        errors = np.cumsum(g.table[rows].astype(bool) != seen[:, None], axis=0, dtype=np.int32)
        errors = np.concatenate([np.zeros((1, len(placements)), np.int32), errors])[first:]
        found[d] = _heaviest(errors, noise, min(guesses, len(placements)))
    return found


def _heaviest(
    errors: Int[np.ndarray, "sizes N"], noise: float, guesses: int
) -> Float[np.ndarray, " sizes"]:
    """Posterior mass of the `guesses` placements with the fewest errors."""
    fewest = np.partition(errors, guesses - 1, axis=1)[:, :guesses]
    start = fewest.min(axis=1, keepdims=True)
    odds = math.log(noise / (1.0 - noise))
    weight = np.exp(odds * (errors - start)).sum(axis=1)
    return np.exp(odds * (fewest - start)).sum(axis=1) / weight
