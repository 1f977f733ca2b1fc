"""When does a sample of an AND (or an OR) identify its support? Bounds on P(|V_m| = 1).

The relevant bits come first. n_1 = samples with all relevant bits 1 (the positives), n_0i =
samples where only relevant bit i is 0, n_K = negatives whose bits in K are all 1. Given these, the
irrelevant columns are independent, and a column can replace bit i only if it is 1 on the positives
and 0 where only i refutes:

    Q   = (1 - p^n_1 [1 - prod_i (1 - (1-p)^n_0i)])^(T-s)           no single swap survives
    far = sum_{r<=s-2} C(T-s, s-r) p^((s-r) n_1) sum_{|K|=r} (1 - p^(s-r))^n_K

    E[(Q - far)_+]  <=  P(|V_m| = 1)  <=  E[Q] = Psi_m.

The upper side is exact for single swaps; the lower side adds a union bound over the rest, given the
relevant bits. OR is AND of flipped bits, so p becomes 1-p. (Ours.)
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from capax.boolean.best_possible.disagreement import check_length, log_binomial, rivals
from capax.boolean.functions import SparseFunction
from capax.boolean.random_functions import Key, WordStream
from capax.boolean.traits.bias import row_probabilities
from capax.errors import InfeasibleError, InputError, require

MAX_TERMS = 5_000_000
_TAIL = 1e-6


@dataclass(frozen=True)
class Sandwich:
    """lower <= quantity <= upper, both estimated with (at most) this standard error."""

    lower: float
    upper: float
    standard_error: float


def probability_as_conjunction(f: SparseFunction, p: float) -> float:
    """p if f is an AND, 1-p if it is an OR. Raises `InputError` for other functions."""
    is_and = f.s > 0 and f.is_boolean and f.table.sum() == 1.0 and f.table[-1] == 1.0
    is_or = f.s > 0 and f.is_boolean and f.table.sum() == f.table.size - 1 and f.table[0] == 0.0
    if not (is_and or is_or):
        raise InputError(f"function: wanted an AND or an OR, got {f}")
    require(0.0 < p < 1.0, "p", "0 < p < 1", p)
    return float(p) if is_and else 1.0 - float(p)


def no_swap_probability(f: SparseFunction, T: int, m: int, p: float) -> float:
    """Psi_m = E[Q] by exact summation over (n_1, n_01, .., n_0s) ~ Multinomial.

    Raises `InfeasibleError` beyond 5 million terms; then use `probability_one_left`.
    """
    check_length(f, T)
    require(m >= 0, "m", "a number of examples >= 0", m)
    p, s = probability_as_conjunction(f, p), f.s
    if math.comb(m + s + 1, s + 1) > MAX_TERMS:
        raise InfeasibleError(f"m: exact summation for m = {m}, s = {s} needs more than 5e6 terms")
    counts = _bounded_compositions(m, s + 1)
    rest = m - counts.sum(axis=1)
    chances = np.array([p**s] + [p ** (s - 1) * (1 - p)] * s)
    log_factorial = np.cumsum(np.log(np.maximum(np.arange(m + 1), 1)))
    log_weights = log_factorial[m] - log_factorial[counts].sum(axis=1) - log_factorial[rest]
    log_weights += counts @ np.log(chances) + _log_power(1.0 - chances.sum(), rest)
    return float(np.exp(log_weights) @ _no_swap(T - s, p, counts[:, 0], counts[:, 1:]))


def probability_one_left(
    f: SparseFunction, T: int, m: int, p: float, *, draws: int = 4000, key: Key
) -> Sandwich:
    """The sandwich of P(|V_m| = 1), averaged over `draws` samples of the relevant bits."""
    check_length(f, T)
    require(m >= 0, "m", "a number of examples >= 0", m)
    require(draws >= 2, "draws", "at least 2", draws)
    p = probability_as_conjunction(f, p)
    rows = _sampled_rows(f.s, p, draws * m, WordStream(key=key)).reshape(draws, m)
    counts = np.stack([(rows == row).sum(axis=1) for row in range(1 << f.s)], axis=1)
    lower, upper = _conditional_bounds(T, p, counts)
    error = max(float(lower.std()), float(upper.std())) / math.sqrt(draws)
    return Sandwich(float(lower.mean()), float(upper.mean()), error)


def expected_samples_until_one_left(
    f: SparseFunction, T: int, p: float, *, draws: int = 1000, key: Key
) -> Sandwich:
    """E[first m with |V_m| = 1] = sum_{m>=0} P(|V_m| > 1), sandwiched term by term.

    Examples arrive one at a time in `draws` parallel histories; the sum stops where the expected
    number of wrong survivors, summed over all later m, is below 1e-6 (added to the upper side).
    """
    check_length(f, T)
    require(draws >= 2, "draws", "at least 2", draws)
    kinds, p = rivals(f, T, p), probability_as_conjunction(f, p)
    words, counts = WordStream(key=key), np.zeros((draws, 1 << f.s), dtype=np.int64)
    low, high = np.zeros(draws), np.zeros(draws)
    for m in itertools.count(0):
        lower, upper = _conditional_bounds(T, p, counts)
        low += 1.0 - upper
        high += 1.0 - lower
        tail = sum(math.exp(min(k.log_survivors(m + 1) - math.log(k.q), 700.0)) for k in kinds)
        if tail < _TAIL:
            break
        counts[np.arange(draws), _sampled_rows(f.s, p, draws, words)] += 1
    error = max(float(low.std()), float(high.std())) / math.sqrt(draws)
    return Sandwich(float(low.mean()), float(high.mean()) + tail, error)


def _conditional_bounds(T: int, p: float, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Q - far)_+ and Q for each row of counts [draws, 2^s] of the relevant bits' patterns."""
    s = counts.shape[1].bit_length() - 1
    full = (1 << s) - 1
    only = counts[:, [full ^ (1 << i) for i in range(s)]]
    upper = _no_swap(T - s, p, counts[:, full], only)
    far = np.zeros(len(counts))
    for r in range(s - 1):
        others = log_binomial(T - s, s - r) + (s - r) * counts[:, full] * math.log(p)
        for K in itertools.combinations(range(s), r):
            mask = sum(1 << i for i in K)
            contains = [row for row in range(full) if row & mask == mask]
            survive = counts[:, contains].sum(axis=1) * math.log1p(-(p ** (s - r)))
            far += np.exp(np.minimum(others + survive, 700.0))
    return np.maximum(upper - far, 0.0), upper


def _no_swap(num_irrelevant: int, p: float, n_1: np.ndarray, n_0: np.ndarray) -> np.ndarray:
    """Q = (1 - p^n_1 [1 - prod_i (1 - (1-p)^n_0i)])^(T-s)."""
    blocked = np.prod(1.0 - (1.0 - p) ** n_0, axis=1)
    swap = p**n_1 * (1.0 - blocked)
    log_free = np.log1p(-np.minimum(swap, 1.0 - 1e-16)) * num_irrelevant
    return np.where(swap >= 1.0, float(num_irrelevant == 0), np.exp(log_free))


def _sampled_rows(s: int, p: float, size: int, words: WordStream) -> np.ndarray:
    """Row numbers of `size` samples of the s relevant bits."""
    edges = np.cumsum(row_probabilities(s, p))[:-1]
    return np.searchsorted(edges, words.next(size) * 2.0**-32, side="right")


def _bounded_compositions(m: int, parts: int) -> np.ndarray:
    """All vectors of `parts` counts >= 0 with sum <= m."""
    vectors = np.zeros((1, 0), dtype=np.int64)
    for _ in range(parts):
        room = m - vectors.sum(axis=1) + 1
        starts = np.repeat(np.cumsum(room) - room, room)
        values = np.arange(int(room.sum())) - starts
        vectors = np.column_stack([np.repeat(vectors, room, axis=0), values])
    return vectors


def _log_power(base: float, exponents: np.ndarray) -> np.ndarray:
    """exponents * ln(base), with 0 ln 0 = 0."""
    if base <= 0.0:
        return np.where(exponents == 0, 0.0, -np.inf)
    return exponents * math.log(base)
