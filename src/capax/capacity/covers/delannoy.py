"""Counting integer points in the l1 ball: the size of every cover in this folder.

D(N, K) = #{c in Z^N : ||c||_1 <= K} = sum_j 2^j C(N, j) C(K, j)   (Delannoy numbers, symmetric).
"""

import math

import numpy as np

from capax.capacity.arguments import check_count, check_nonnegative
from capax.errors import InfeasibleError

MAX_TERMS = 1_000_000
MAX_SUBSET_TERMS = 100_000


def log_sum_from_ratios(log_ratios: np.ndarray) -> float:
    """ln(1 + r_1 + r_1 r_2 + ...) from the logs of the ratios of consecutive terms."""
    logs = np.concatenate([np.zeros(1), np.cumsum(log_ratios)])
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


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
    return log_sum_from_ratios(ratios)


def log_delannoy_bound(N: int | float, K: int | float) -> float:
    """An upper bound on ln D(N, K) for any size, within ln(min(N, K))/2 + 2 of it.

    Let K <= N (D is symmetric). The lesser of K ln(2N + 1) and the saddle point of the generating
    function sum_K D(N, K) x^K = (1 + x)^N / (1 - x)^{N+1}: all its terms are positive, so for
    0 < x < 1, ln D <= -K ln x + N ln(1 + x) - (N + 1) ln(1 - x), least at the root x of
    (K + 1) x^2 + (2N + 1) x = K. x is written without subtracting near-equals.
    Non-decreasing in N and in K.
    """
    check_nonnegative("N", N)
    check_nonnegative("K", K)
    if K == 0 or N == 0:
        return 0.0
    if math.isinf(K) or math.isinf(N):
        return math.inf
    K, N = sorted((K, N))
    return min(K * math.log(2 * N + 1), _log_saddle(float(N), float(K)))


def log_sum_signed_subsets(N: int, k: int) -> float:
    """ln sum_{j <= k} 2^j C(N, j): sign vectors in {-1,0,1}^N with at most k nonzeros.

    Beyond 10^5 terms a lower bound: those terms, or j ln(2N/j) at the best j (C(N,j) >= (N/j)^j).
    """
    check_count("N", N, at_least=0)
    check_count("k", k, at_least=0)
    k = min(k, N)
    j = np.arange(min(k, MAX_SUBSET_TERMS), dtype=np.float64)
    value = log_sum_from_ratios(np.log(2.0) + np.log(N - j) - np.log(j + 1))
    if k <= MAX_SUBSET_TERMS:
        return value
    best = min(k, math.ceil(2 * N / math.e))
    return max(value, best * math.log(2 * N / best))


def _log_saddle(N: float, K: float) -> float:
    odd = 2 * N + 1
    root = math.hypot(odd, 2 * math.sqrt(K) * math.sqrt(K + 1))
    x = 2 * K / (odd + root)
    # K <= N keeps x below sqrt(2) - 1, so that 1 - x is harmless
    return -K * math.log(x) + N * math.log1p(x) - (N + 1) * math.log1p(-x)
