"""Covering numbers of linear classes: Zhang's theorem, Lemma 4.6, and our sharper covers.

Everything is the natural log of a covering number in float64. N counts sample points,
`a` and `b` bound ||w|| and ||x||. Our constants come from one idea, the Perceptron cover:

    Start at w_0 = 0. While some sample has |(w - w_t).x_n| > eps, step by eps/b^2 along
    sign(.) x_n. Every step lowers ||w - w_t||^2 by more than eps^2/b^2, so fewer than (ab/eps)^2
    steps happen; the end point is eps/b^2 * sum_n c_n x_n with integers c and
    ||c||_1 <= K = ceil((ab/eps)^2) - 1. Counting those c gives the Delannoy number D(N, K).

The cover is external (its elements may leave the ball). Projecting onto the ball after each step
makes it internal, but then the order of the steps matters: at most (2N + 1)^K sequences.
"""

import math

from capax.capacity.arguments import check_count, check_nonnegative, check_positive
from capax.capacity.covers.delannoy import log_delannoy as log_delannoy
from capax.capacity.covers.delannoy import log_delannoy_bound as log_delannoy_bound
from capax.capacity.covers.delannoy import log_sum_signed_subsets
from capax.capacity.covers.volume import log_cover_parametric
from capax.errors import require

RHOS = (1.05, 1.1, 1.2, 1.35, 1.5, 2.0, 3.0)
# Relative distance to an integer below which a ceiling is decided in rationals, not in floats.
NEAR_TIE = 1e-9


def num_updates(a: float | int, b: float | int, eps: float | int, factor: float | int = 1) -> float:
    """How many Perceptron steps always suffice: K = ceil(x) - 1, x = factor (ab/eps)^2.

    The largest integer strictly below x; 0 if ab <= eps. Near-ties are decided in exact rational
    arithmetic on the given floats. A float, since it may pass 2^53 (and may be infinite).
    """
    if a == 0 or b == 0:
        return 0.0
    ratio = _ratio(a, b, eps)
    x = factor * ratio * ratio
    if x > 2.0**52:
        return x
    if abs(ratio - 1) > NEAR_TIE and abs(x - round(x)) > NEAR_TIE * x:
        return float(math.floor(x)) if ratio > 1 else 0.0
    over, under = 1, 1  # ab/eps as integers: a fraction would look for common factors
    for top, bottom in (a.as_integer_ratio(), b.as_integer_ratio(), eps.as_integer_ratio()[::-1]):
        over, under = over * top, under * bottom
    times, parts = factor.as_integer_ratio()
    return float(-(-times * over**2 // (parts * under**2)) - 1) if over > under else 0.0


def log_cover_vector(
    a: float | int,
    b: float | int,
    eps: float | int,
    N: int,
    p: float | int = 2.0,
    *,
    internal: bool = False,
) -> float:
    """ln N_inf of {x -> w.x : ||w||_q <= a} on N points with ||x||_p <= b; 1/p + 1/q = 1, p >= 2.

    External: ln D(N, K), K < (p - 1)(ab/eps)^2. Internal (p = 2 only): K ln(2N + 1).
    Constant ours (Perceptron cover, top of this file; for p > 2 mirror descent with
    ||.||_p^2 / 2 and step eps/((p - 1) b^2)). Compare `zhang_bound`.
    """
    _check_class(a, b, eps, N)
    require(2 <= p < math.inf, "p", "2 <= p < inf", p)
    require(p == 2 or not internal, "internal", "p = 2 for an internal cover", p)
    K = num_updates(a, b, eps, p - 1)
    return K * math.log(2 * N + 1) if internal else log_delannoy_bound(N, K)


def log_cover_matrix_frobenius(
    B_F: float | int, b: float | int, eps: float | int, N: int, k: int
) -> float:
    """ln N_inf^ext of {x -> Wx : ||W||_F <= B_F}, W with k rows: ln D(kN, K), K < k (b B_F/eps)^2.

    Ours: if ||(W - W_t) x_n|| > eps then some row i has |delta_i . x_n| > eps/sqrt(k); a step
    eps/(sqrt(k) b^2) on it lowers ||W - W_t||_F^2 by more than eps^2/(k b^2). 0 if b B_F <= eps:
    then W = 0 alone is a cover.
    """
    _check_class(B_F, b, eps, N)
    check_count("k", k)
    return log_delannoy_bound(k * N, num_updates(B_F, b, eps, k))


def log_cover_matrix_21(
    B: float | int, b: float | int, eps: float | int, N: int, k: int, rhos: tuple = RHOS
) -> float:
    """Lemma 4.6: ln N_inf^ext of {x -> Wx : ||W^T||_{2,1} <= B}, k outputs, N points, ||x|| <= b.

    min over rho of ln D(k L N, K), K < rho M, M = (bB/eps)^2, L = 1 + ceil(log_rho M);
    0 if bB <= eps. Constant ours: rows of norm <= u = B/(rho M) become 0; any other row gets the
    smallest u rho^j above its norm, and tolerance^2 = eps^2 u rho^j / (rho B). Squared errors sum
    to <= eps^2, updates to < rho M, and an update is one of k L N signed coordinates.
    """
    _check_class(B, b, eps, N)
    check_count("k", k)
    require(rhos and all(1 < rho < math.inf for rho in rhos), "rhos", "numbers > 1", rhos)
    ratio = _ratio(B, b, eps)
    if ratio <= 1.0 or math.isinf(ratio):
        return 0.0 if ratio <= 1.0 else math.inf
    levels = [num_levels(math.log(ratio), rho) for rho in rhos]
    covers = (
        log_delannoy_bound(k * L * N, num_updates(B, b, eps, rho))
        for L, rho in zip(levels, rhos, strict=True)
    )
    return min(covers)


def num_levels(log_ratio: float, rho: float) -> int:
    """L = 1 + ceil(log_rho M) with M = exp(2 log_ratio): sizes a row's rounded norm can have."""
    return 1 + math.ceil(2 * log_ratio / math.log(rho) * (1 + NEAR_TIE))


def log_cover_matrix(
    B_21: float | int, B_F: float | int, b: float | int, eps: float | int, N: int, k: int, d: int
) -> float:
    """The smallest of Lemma 4.6, the Frobenius cover and parameter counting (W is k x d)."""
    return min(
        log_cover_matrix_21(B_21, b, eps, N, k),
        log_cover_matrix_frobenius(B_F, b, eps, N, k),
        log_cover_parametric(d * k, B_F, b, eps),
    )


def quadratic_constant_vector(a: float | int, b: float | int, N: int) -> float:
    """C with ln N_inf^int <= C/eps^2 for all eps: a^2 b^2 ln(2N + 1) (ours)."""
    _check_class(a, b, 1.0, N)
    return (a * b) ** 2 * math.log(2 * N + 1)


def quadratic_constant_matrix_21(B: float | int, b: float | int, N: int, k: int) -> float:
    """C with ln N_inf^ext <= C/eps^2 while (bB/eps)^2 <= 2^63: 2 b^2 B^2 ln(128 k N + 1).

    `log_cover_matrix_21` at rho = 2 with L = 64 (ours). Beyond that range C/eps^2 > 8e19 nats.
    """
    _check_class(B, b, 1.0, N)
    check_count("k", k)
    return 2 * (b * B) ** 2 * math.log(128 * k * N + 1)


def zhang_bound(
    a: float | int, b: float | int, eps: float | int, N: int, p: float | int = 2.0
) -> float:
    """Zhang (2002), Theorem 4, the bound the paper uses: ln N_inf, ||x||_p <= b, ||w||_q <= a.

    36 (p - 1) (ab/eps)^2 ln(2 ceil(4ab/eps + 2) N + 1). The 36 is Zhang's; kept for comparison.
    """
    _check_class(a, b, eps, N)
    require(2 <= p < math.inf, "p", "2 <= p < inf", p)
    ratio = _ratio(a, b, eps)
    log_inner = _log(2.0 * N * (4 * ratio + 3) + 1)
    if ratio < 2.0**50:
        log_inner = math.log(2 * math.ceil(4 * ratio + 2) * N + 1)
    return 36 * (p - 1) * ratio * ratio * log_inner


def log_cover_lower(a: float | int, b: float | int, eps: float | int, N: int) -> float:
    """A lower bound on ln N_inf^ext for N orthogonal points of norm b (so N <= d).

    ln sum_{j <= k} 2^j C(N, j) for the largest integer k < (ab/(2 eps))^2: the vectors
    w = (a / (b sqrt(k))) sum_n c_n x_n, c in {-1,0,1}^N with ||c||_1 <= k, are more than
    2 eps apart on some point, hence need different centres (packing <= cover, ours).
    """
    _check_class(a, b, eps, N)
    k = num_updates(a, b, 2 * eps)
    return log_sum_signed_subsets(N, N if k >= N else int(k))


def log_log_cover_vector(log_ratio: float, N: int) -> float:
    """ln of (7)'s K ln(2N + 1) from ln(ab/eps), for ratios beyond any float (deep networks)."""
    check_count("N", N)
    if log_ratio <= 0:
        return -math.inf
    return 2 * log_ratio + math.log(math.log(2 * N + 1))


def log_log_cover_matrix_21(log_ratio: float, N: int, k: int, rho: float = 2.0) -> float:
    """ln of Lemma 4.6's rho M ln(2kLN + 1) from ln(bB/eps), for ratios beyond any float."""
    check_count("N", N)
    check_count("k", k)
    if log_ratio <= 0:
        return -math.inf
    L = num_levels(log_ratio, rho)
    return math.log(rho) + 2 * log_ratio + math.log(math.log(2 * k * L * N + 1))


def _ratio(a: float | int, b: float | int, eps: float | int) -> float:
    return 0.0 if a == 0 or b == 0 else float(a) * float(b) / float(eps)


def _log(value: float) -> float:
    return math.log(value) if value < math.inf else math.inf


def _check_class(a: float | int, b: float | int, eps: float | int, N: int) -> None:
    check_nonnegative("a", a)
    check_nonnegative("b", b)
    check_positive("eps", eps)
    check_count("N", N)
