"""Counting integer points in the l1 ball: the size of every cover in this folder.

D(N, K) = #{c in Z^N : ||c||_1 <= K} = sum_j 2^j C(N, j) C(K, j)   (Delannoy numbers, symmetric).
"""

import math

import numpy as np

from capax.capacity.arguments import check_count, check_nonnegative
from capax.errors import InfeasibleError

MAX_TERMS = 1_000_000


def log_delannoy(N: int, K: int) -> float:
    """ln D(N, K), exact up to rounding, by summing the min(N, K) + 1 terms in the log domain.

    Raises `InfeasibleError` beyond a million terms; `log_delannoy_bound` has no such limit.
    """
    check_count("N", N, at_least=0)
    check_count("K", K, at_least=0)
    terms = min(N, K)
    if terms > MAX_TERMS:
        raise InfeasibleError(f"log_delannoy: at most {MAX_TERMS} terms, this one has {terms}")
    j = np.arange(terms, dtype=np.float64)
    ratios = np.log(2.0) + np.log(N - j) + np.log(K - j) - 2 * np.log(j + 1)
    return _log_sum_of_cumulative(ratios)


def log_delannoy_bound(N: int | float, K: int | float) -> float:
    """An upper bound on ln D(N, K) for any size, within about ln(K)/2 + 1 of it.

    The least of K ln(2N + 1), N ln(2K + 1) and the saddle point of the generating function
    sum_K D(N, K) x^K = (1 + x)^N / (1 - x)^{N+1}, whose terms are all positive: for 0 < x < 1,
    ln D <= -K ln x + N ln(1 + x) - (N + 1) ln(1 - x), least at the root x of
    (K + 1) x^2 + (2N + 1) x = K. Both x and 1 - x are written without subtracting near-equals.
    Non-decreasing in N and in K, because each of the three is.
    """
    check_nonnegative("N", N)
    check_nonnegative("K", K)
    if K == 0 or N == 0:
        return 0.0
    if math.isinf(K) or math.isinf(N):
        return math.inf
    return min(_times_log(K, N), _times_log(N, K), _log_saddle(float(N), float(K)))


def log_sum_signed_subsets(N: int, k: int) -> float:
    """ln sum_{j <= k} 2^j C(N, j): sign vectors with at most k nonzeros; beyond 10^6 terms a
    lower bound, j ln(2N/j) at the best j (from C(N, j) >= (N/j)^j)."""
    check_count("N", N, at_least=0)
    check_count("k", k, at_least=0)
    k = min(k, N)
    if k > MAX_TERMS:
        j = min(k, math.ceil(2 * N / math.e))
        return j * math.log(2 * N / j)
    j = np.arange(k, dtype=np.float64)
    return _log_sum_of_cumulative(np.log(2.0) + np.log(N - j) - np.log(j + 1))


def _log_sum_of_cumulative(log_ratios: np.ndarray) -> float:
    """ln(1 + r_1 + r_1 r_2 + ...) from the logs of the ratios of consecutive terms."""
    logs = np.concatenate([np.zeros(1), np.cumsum(log_ratios)])
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _times_log(count: int | float, size: int | float) -> float:
    return count * math.log(2 * size + 1)


def _log_saddle(N: float, K: float) -> float:
    odd = 2 * N + 1
    root = math.hypot(odd, 2 * math.sqrt(K) * math.sqrt(K + 1))
    x = 2 * K / (odd + root)
    # root - 2K = (odd^2 + 4K) / (root + 2K)
    one_minus_x = (odd + (odd * (odd / (root + 2 * K)) + 4 * K / (root + 2 * K))) / (odd + root)
    small = x < 0.5
    log_x = math.log(x) if small else math.log1p(-one_minus_x)
    log_one_minus_x = math.log1p(-x) if small else math.log(one_minus_x)
    return -K * log_x + N * math.log1p(x) - (N + 1) * log_one_minus_x
