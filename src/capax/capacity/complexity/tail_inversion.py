"""From counted errors to an error rate: binomial tails and kl, inverted on the safe side.

With k errors on n independent examples the largest rate that still explains so few is

    Bin(k, n, delta) = max{p : P[Bin(n, p) <= k] >= delta},

and P[rate > Bin(k, n, delta)] <= delta. An Occam prior asks for delta = 2^-thousands, so delta
is kept as its logarithm and p as x = ln(p/(1-p)): neither p near 1 nor the tail underflows.

The returned number is certified, not approximated. `log_tail_at_most` is an upper bound of ln
P[Bin(n, p) <= k]: the largest term by Stirling's series (its remainder alternates in sign, so two
partial sums enclose it), the others by their exact ratios, the rest of the sum by a geometric
series, and every rounding error is added. A rate with a computed tail below delta is proved; the
bisection only finds a small one.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from capax.errors import require
from capax.rounding import UNIT

EXACT_FACTORIALS = 64
NEGLIGIBLE = -45.0  # terms below e^-45 of the largest are covered by the geometric remainder
MAX_TERMS = 2**20
MOST_SUMMED = 10**9
LOG_ULPS = 8.0  # no log, log1p or exp here errs by more than 8 units in the last place


def binomial_upper(k: int, n: int, log_delta: float) -> float:
    """max{p : P[Bin(n, p) <= k] >= delta}, rounded up; 1 if k = n.

    For delta > 1/2 not below k/n; beyond 10^9 examples Chernoff's kl^{-1}(k/n, ln(1/delta)/n),
    which is larger. Raises `InputError` unless 0 <= k <= n, n >= 1, log_delta < 0.
    """
    _check(k, n, log_delta)
    if k == n:
        return 1.0
    if n > MOST_SUMMED:
        share = min(1.0, k / n * (1 + 2 * UNIT))
        return kl_inverse(share, -log_delta / n * (1 + LOG_ULPS * UNIT))
    return _rate(_upper_logit(k, n, log_delta), up=True)


def binomial_lower(k: int, n: int, log_delta: float) -> float:
    """min{p : P[Bin(n, p) >= k] >= delta}, rounded down; 0 if k = 0."""
    _check(k, n, log_delta)
    require(n <= MOST_SUMMED, "n", f"at most {MOST_SUMMED} examples", n)
    return 0.0 if k == 0 else _rate(-_upper_logit(n - k, n, log_delta), up=False)


def kl(q: float, p: float) -> float:
    """kl(q || p) = q ln(q/p) + (1-q) ln((1-q)/(1-p)) in nats; inf where p excludes q."""
    for name, value in (("q", q), ("p", p)):
        require(0 <= value <= 1, name, "a number in [0, 1]", value)
    if (p == 0 and q > 0) or (p == 1 and q < 1):
        return math.inf
    ones = 0.0 if q == 0 else q * (math.log(q) - math.log(p))
    zeros = 0.0 if q == 1 else (1 - q) * math.log1p((p - q) / (1 - p))
    return max(0.0, ones + zeros)


def kl_inverse(q: float, c: float) -> float:
    """kl^{-1}(q, c) = max{p : kl(q || p) <= c}, rounded up."""
    require(0 <= q <= 1, "q", "a number in [0, 1]", q)
    require(c >= 0, "c", "a number >= 0", c)
    if q == 1 or math.isinf(c):
        return 1.0
    if q == 0:
        return min(1.0, -math.expm1(-c) * (1 + LOG_ULPS * UNIT) + 5e-324)
    start = math.log(q) - math.log1p(-q)
    return max(q, _rate(_first_logit(start, lambda x: _kl_at_least(q, x) >= c), up=True))


def log_tail_at_most(k: int, n: int, x: float) -> float:
    """At least ln P[Bin(n, p) <= k], p = 1/(1 + e^-x), for p > k/(n + 1) and k < n."""
    log_p, log_q = -_softplus(-x), -_softplus(x)
    if k == 0:
        return n * log_q * (1 - LOG_ULPS * UNIT)
    r = n - k
    first, second = math.log(k / n) - log_p, math.log(r / n) - log_q
    largest = 0.5 * (math.log(n / k / r) - math.log(2 * math.pi)) - k * first - r * second
    error = LOG_ULPS * UNIT * (
        k * (1 - math.log(k / n) - log_p) + r * (1 - math.log(r / n) - log_q) + math.log(n) + 4
    )  # fmt: skip
    stirling = _stirling(n)[1] - _stirling(k)[0] - _stirling(r)[0]
    total, doubt = _sum_of_ratios(k, n, x)
    return largest + stirling + math.log(total) + error + doubt + 4 * UNIT


@lru_cache(maxsize=4096)
def _stirling(n: int) -> tuple[float, float]:
    """An interval for ln n! - (n + 1/2) ln n + n - ln(2 pi)/2."""
    if n <= EXACT_FACTORIALS:
        value = math.lgamma(n + 1) if n < 2 else math.log(math.factorial(n))
        value += n - (n + 0.5) * math.log(n) - 0.5 * math.log(2 * math.pi)
        doubt = LOG_ULPS * UNIT * (2 * n * (1 + math.log(n)) + 4)
        return value - doubt, value + doubt
    high = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)
    return high - 1 / (1680 * n**7) - 8 * UNIT, high + 8 * UNIT


def _sum_of_ratios(k: int, n: int, x: float) -> tuple[float, float]:
    """At least sum_j t_{k-j}/t_k of the binomial terms, and the error of its logarithm.

    t_{i-1}/t_i = i / ((n - i + 1) e^x) falls with i: the cut-off rest is below a geometric series.
    """
    count = min(k, 256)
    while True:
        i = np.arange(k, k - count, -1, dtype=np.float64)
        steps = np.log(i / (n - i + 1.0)) - x
        logs = np.cumsum(steps)
        if logs[-1] < NEGLIGIBLE or count in (k, MAX_TERMS):
            break
        count = min(k, MAX_TERMS, 8 * count)
    used = int(np.searchsorted(-logs, -NEGLIGIBLE)) + 1
    logs, steps, i = logs[:used], steps[:used], i[:used]
    total = 1.0 + float(np.exp(logs).sum())
    if i[-1] > 1:
        ratio = math.exp(steps[-1]) * (1 + LOG_ULPS * UNIT)
        require(ratio < 1, "p", "a rate above k/(n + 1)", ratio)
        total += math.exp(logs[-1]) * ratio / (1 - ratio) * (1 + 64 * UNIT)
    size = len(logs)
    in_steps = float(np.abs(steps).sum()) + LOG_ULPS * size * (2 + math.log(n) + abs(x))
    return total, UNIT * ((size + 2) * float(np.abs(steps).sum()) + in_steps + 16 * size + 64)


def _kl_at_least(q: float, x: float) -> float:
    """At most kl(q || p), p = 1/(1 + e^-x), 0 < q < 1."""
    parts = (
        q * math.log(q), q * _softplus(-x), (1 - q) * math.log1p(-q), (1 - q) * _softplus(x)
    )  # fmt: skip
    return math.fsum(parts) - LOG_ULPS * UNIT * math.fsum(map(abs, parts))


def _upper_logit(k: int, n: int, log_delta: float) -> float:
    """x with ln P[Bin(n, p(x)) <= k] <= ln delta, close to the smallest such."""
    goal = log_delta * (1 + LOG_ULPS * UNIT)  # ln delta was itself rounded
    if k == 0:
        log_q = goal / n  # 1 - p = delta^(1/n)
        start = math.log(-math.expm1(log_q)) - log_q - 1e-9 * (1 - log_q)
    else:
        start = math.log(k) - math.log(n - k)
    return _first_logit(start, lambda x: log_tail_at_most(k, n, x) <= goal)


def _first_logit(start: float, proved: Callable[[float], bool]) -> float:
    """The first x >= start at which a claim that stays true from there on is proved."""
    if proved(start):
        return start
    low, step = start, 1e-3
    while not proved(start + step):
        low, step = start + step, 2 * step
    high = start + step
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if proved(middle) else (middle, high)
    return high


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _rate(x: float, *, up: bool) -> float:
    """1/(1 + e^-x), rounded up or down as requested."""
    value = math.exp(-_softplus(-x))
    slack = LOG_ULPS * UNIT * (2 + _softplus(-x))
    if up:
        return min(1.0, value * (1 + slack) + 5e-324)
    return max(0.0, value * (1 - slack) - 5e-324)


def _check(k: int, n: int, log_delta: float) -> None:
    require(n >= 1, "n", "at least one example", n)
    require(0 <= k <= n, "k", f"errors between 0 and n = {n}", k)
    require(-math.inf < log_delta < 0, "log_delta", "a finite number < 0", log_delta)
