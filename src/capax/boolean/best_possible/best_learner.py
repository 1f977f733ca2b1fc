"""The best possible learner: how often could anyone name the support after m examples?

Under a uniform prior on the placements the posterior is uniform on the version space V_m, so the
best chance to name I exactly is E[1/|V_m|], which lies between P(|V_m| = 1) and (1 + P(..))/2.
With K guesses of which one must be right it is E[min(1, K/|V_m|)].

AND and OR are simulated exactly for any T, also 10^6: draw the m x s relevant bits; the number of
irrelevant columns that are 1 on all n_1 positives is Binomial(T - s, p^n_1); only these can occur
in a consistent placement; draw their bits on the negatives and count. Other functions draw the
whole sample, so T is limited by the search. (Ours.)
"""

import math
from dataclasses import dataclass

import numpy as np

from capax.boolean.best_possible.disagreement import check_length
from capax.boolean.best_possible.one_rule_left import probability_as_conjunction
from capax.boolean.consistent.conjunctions import conjunction_placements
from capax.boolean.consistent.version_space import count_up_to
from capax.boolean.functions import SparseFunction
from capax.boolean.random_functions import Key, generator
from capax.errors import InputError, require

_MAX_WORK = 20_000_000_000  # rare large draws are worth half a minute; most need a millisecond


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
    check_length(f, T)
    require(0.0 < p < 1.0, "p", "0 < p < 1", p)
    require(m >= 0, "m", "a number of examples >= 0", m)
    require(draws >= 2, "draws", "at least 2", draws)
    require(limit >= 2, "limit", "at least 2", limit)
    require(1 <= guesses <= limit, "guesses", f"1 to limit = {limit}", guesses)
    random, g = generator(key=key), f.relevant()
    sizes = np.array(_sizes(g, T, m, p, limit, draws, random))
    chance, alone = np.minimum(1.0, guesses / sizes), (sizes == 1).astype(np.float64)
    return BestLearner(
        identification=float(chance.mean()),
        identification_error=float(chance.std()) / math.sqrt(draws),
        one_left=float(alone.mean()),
        one_left_error=float(alone.std()) / math.sqrt(draws),
        truncation=float((sizes == limit).mean()) * guesses / limit,
        draws=draws,
    )


def _sizes(
    f: SparseFunction,
    T: int,
    m: int,
    p: float,
    limit: int,
    draws: int,
    random: np.random.Generator,
) -> list[int]:
    """min(|V_m|, limit) for some random samples."""
    try:
        as_and = probability_as_conjunction(f, p)
    except InputError:
        placed, sizes = f.on(range(f.s), T), []
        for _ in range(draws):
            X = random.random((m, T)) < p
            sizes.append(count_up_to(f, X, placed(X), limit))
        return sizes
    return [_conjunction_size(T, f.s, m, as_and, limit, random) for _ in range(draws)]


def _conjunction_size(
    T: int, s: int, m: int, p: float, limit: int, random: np.random.Generator
) -> int:
    """min(|V_m|, limit) for an AND, from the columns that the positives leave alive."""
    relevant = random.random((m, s)) < p
    negatives = relevant[~relevant.all(axis=1)]
    alive = int(random.binomial(T - s, p ** (m - len(negatives))))
    others = random.random((len(negatives), alive)) < p
    columns = np.concatenate([negatives, others], axis=1).astype(np.uint8)
    count = 0
    for block in conjunction_placements(s, columns, np.zeros(len(negatives)), _MAX_WORK):
        count += len(block)
        if count >= limit:
            return limit
    return count
