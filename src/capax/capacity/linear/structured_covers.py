"""Covers of whole matrices in Frobenius norm: by rank and by entries. Neither depends on m or T.

A cover of W within e in Frobenius norm covers x -> W^T x within e b at every point of length b, and
z^T W x within e b at every pair with ||z|| ||x|| <= b: no sample is needed.

Rank (after Candes and Plan). W = U S V^T with r columns, ||S||_F <= B. Maximal separated sets of
the orthonormal U (largest column distance, radius e/3B), of S (Frobenius, e/3) and of V are covers
from inside, of at most (1 + 6B/e)^{dr}, (1 + 6B/e)^r, (1 + 6B/e)^{kr} elements by volume. Then
||W - W'||_F <= ||(U - U') S||_F + ||S - S'||_F + ||S' (V - V')^T||_F <= e/3 + e/3 + e/3, so

    ln N(e, ||.||_F) <= r (d + k + 1) ln(1 + 6B/e)   <= r (d + k + 1) ln(9B/e) for e <= 3B.

Entries (Maurey). ||W||_{1,1} <= B: draw +-B E_ij with probability |W_ij|/B and 0 otherwise; the
mean of n draws has expectation W and squared error at most B^2/n, so some mean of n = ceil((B/e)^2)
draws is within e. It is (B/n) c with integer entries, ||c||_1 <= n: D(number of entries, n) of
them, at most (2dk + 1)^n.
"""

import math

from capax.capacity.arguments import check_count, check_nonnegative, check_positive
from capax.capacity.covers.delannoy import log_delannoy_bound
from capax.capacity.magnitude import safe_log
from capax.errors import require

# Above this ln(B/e) the square (B/e)^2 passes 10^17 and closed forms are used.
LARGE_LOG_RATIO = 20.0


def rank_parameters(d: int, k: int, r: int) -> int:
    """r (d + k + 1), the exponent of the rank cover; head width r, d = k: r (2d + 1)."""
    check_count("d", d)
    check_count("k", k)
    check_count("r", r)
    require(r <= min(d, k), "r", f"a rank of at most {min(d, k)}", r)
    return r * (d + k + 1)


def log_cover_rank(d: int, k: int, r: int, B: float | int, eps: float | int) -> float:
    """ln N(eps, ||.||_F) of {W in R^{d x k} : rank W <= r, ||W||_F <= B}; 0 if B <= eps."""
    n = rank_parameters(d, k, r)
    check_nonnegative("B", B)
    check_positive("eps", eps)
    return log_rank_count(n, safe_log(float(B)) - math.log(eps))


def log_rank_count(n: int, log_ratio: float) -> float:
    """n ln(1 + 6 e^{log_ratio}): the rank cover from ln(B/eps); 0 if B <= eps."""
    return 0.0 if log_ratio <= 0 else n * _log_1_plus(math.log(6.0) + log_ratio)


def log_volume_count(n: int, log_ratio: float) -> float:
    """n ln(1 + 2 e^{log_ratio}): all n parameters in a ball, from ln(B/eps); 0 if B <= eps."""
    return 0.0 if log_ratio <= 0 else n * _log_1_plus(math.log(2.0) + log_ratio)


def log_cover_entries(num_entries: int, B: float | int, eps: float | int) -> float:
    """ln N(eps, ||.||_F) of {W : ||W||_{1,1} <= B} with num_entries entries; 0 if B <= eps."""
    check_nonnegative("B", B)
    check_positive("eps", eps)
    log_log = log_log_cover_entries(num_entries, safe_log(float(B)) - math.log(eps))
    return 0.0 if log_log == -math.inf else math.exp(log_log)


def log_log_cover_entries(num_entries: int, log_ratio: float) -> float:
    """ln ln N of the entrywise cover from ln(B/eps), for ratios beyond any float."""
    check_count("num_entries", num_entries)
    if log_ratio <= 0:
        return -math.inf
    if log_ratio > LARGE_LOG_RATIO:  # ceil(x) <= 2x for x >= 1
        return math.log(2.0) + 2 * log_ratio + math.log(math.log(2 * num_entries + 1))
    n = math.ceil(math.exp(2 * log_ratio) * (1 + 1e-12))
    return safe_log(log_delannoy_bound(num_entries, n))


def _log_1_plus(log_x: float) -> float:
    """ln(1 + e^{log_x}), rounded up where e^{log_x} would be too large for a float."""
    return log_x + math.exp(-log_x) if log_x > 40 else math.log1p(math.exp(log_x))
