"""Statistical queries: lower bounds for learners of s-sparse parities from inexact averages.

The targets are the d = C(T, s) parities chi_S of s of T uniform bits. chi_S and chi_R are
uncorrelated for S != R, so d is the statistical-query dimension of the class.

**An average.** A query is a function g(x, y) in [-1, 1] of bits and label y = -1, +1. As
g = g_0(x) + y g_1(x) with g_1 = (g(x, 1) - g(x, -1))/2,

    E[g(x, chi_S(x))] = E[g_0] + c_S,    c_S = E[g_1 chi_S],    sum_S c_S^2 <= E[g_1^2] <= 1   (1)

by Bessel's inequality. Only c_S depends on the target. So at most k = ceil(1/tau^2) - 1 targets
have |c_S| > tau: k tau^2 < 1.

**A hypothesis.** If h: bits -> {-1, 1} has error at most (1 - gamma)/2 on chi_S, then
E[h chi_S] >= gamma. By (1) this is true of at most 1/gamma^2 targets S.                         (2)

**Theorem 1 (queries).** A learner asks q queries, each may depend on the answers before; each
answer is within tau of the truth. If for a uniform target it has with probability p an error of at
most (1 - gamma)/2, whatever the answers within tau, then

    q >= (p d - 1/gamma^2) / (ceil(1/tau^2) - 1)   > (p d - 1/gamma^2) tau^2.

Proof. Fix the coins of the learner. Answer every query by E[g_0] if |c_S| <= tau and by the truth
otherwise. The queries that follow answers E[g_0] alone are q fixed ones, so at most q k targets
ever get another answer. The remaining targets all end with one hypothesis, which is right on at
most 1/gamma^2 of them. So the share p is at most (q k + 1/gamma^2)/d, for all coins.

**Theorem 2 (noisy gradient steps).** Let step i see v_i = E[grad l(w_i; x, chi_S(x))] + sigma Z_i,
Z_i standard normal; w_(i+1) and the final hypothesis are any functions of v_1, ..., v_i (momentum,
Adam and weight decay included) and of coins. Let G^2 >= E|g_1|^2 for all w, g_1 half the difference
of the gradients with label +1 and -1. If for a uniform target the error is with probability p at
most (1 - gamma)/2 after t steps, then

    p <= 1/(gamma^2 d) + (G/(2 sigma)) sqrt(t/d),
    t >= 4 d (sigma/G)^2 (p - 1/(gamma^2 d))^2.

Proof. Let Q be the law of (v_1, ..., v_t) without the terms c_S, and P_S the law with target S. By
the chain rule KL(Q, P_S) = sum_i E_Q |c_S(w_i)|^2 / (2 sigma^2), where c_S(w) is the vector of (1),
one entry for each parameter. The mean over S is at most t G^2/(2 sigma^2 d), by (1) in each entry.
By Pinsker and Jensen the mean over S of the total variation is at most (G/(2 sigma)) sqrt(t/d).
Under Q the hypothesis does not depend on S, so by (2) it is right with chance <= 1/(gamma^2 d).

For the logistic loss of a network f_w, g_1 = -grad f_w / 2, so G is half of the largest root mean
square of |grad f_w|.

**Not covered.** A mini-batch of fresh examples does not give Gaussian noise: with small batches and
enough precision, gradients can reveal single examples, and Gaussian elimination solves parities
from about T examples. T^s as a law of time for trained networks is a comparison, not a theorem.
"""

import math
from fractions import Fraction

from capax.errors import require


def query_dimension(T: int, s: int) -> int:
    """d = C(T, s): pairwise uncorrelated parities of s of T bits."""
    require(T >= 1, "T", "at least one bit", T)
    require(1 <= s <= T, "s", f"1 <= s <= T = {T}", s)
    return math.comb(T, s)


def queries_needed(
    T: int, s: int, tau: float, *, advantage: float = 1.0, success: float = 1.0
) -> int:
    """Theorem 1: fewer queries of tolerance tau do not learn the s-sparse parities of T bits.

    advantage: gamma = 1 - 2 error; success: p, over a uniform target and the learner's coins.
    """
    require(0 < tau < 1, "tau", "a tolerance between 0 and 1", tau)
    _check(advantage, success)
    told_apart = math.ceil(1 / Fraction(tau) ** 2) - 1
    needed = Fraction(success) * query_dimension(T, s) - 1 / Fraction(advantage) ** 2
    return max(0, math.ceil(needed / told_apart))


def steps_needed(
    T: int,
    s: int,
    noise: float,
    *,
    gradient: float = 1.0,
    advantage: float = 1.0,
    success: float = 1.0,
) -> float:
    """Theorem 2: fewer steps with noise sigma = `noise` do not learn. gradient: G."""
    require(noise >= 0 and math.isfinite(noise), "noise", "a finite number >= 0", noise)
    require(gradient > 0 and math.isfinite(gradient), "gradient", "a finite number > 0", gradient)
    _check(advantage, success)
    d = query_dimension(T, s)
    require(d < 10**300, "s", "fewer than 10^300 parities", s)
    beyond_luck = max(0.0, success - 1 / (advantage**2 * d))
    return 4 * d * (noise / gradient * beyond_luck) ** 2


def _check(advantage: float, success: float) -> None:
    require(0 < advantage <= 1, "advantage", "1 - 2 error in (0, 1]", advantage)
    require(0 < success <= 1, "success", "a probability in (0, 1]", success)
