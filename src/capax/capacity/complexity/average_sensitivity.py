"""Average sensitivity of one attention head: at most that of majority, about sqrt(2T/pi).

The average sensitivity of f on T uniform bits is the mean number of bits whose flip changes f. It
is T for the parity of all bits.

**Class.** One layer with softmax weights. The query is that of [CLS], so it does not depend on the
bits. Scores and values are any functions of position and bit. The output of a head is

    o(x) = N(x)/Z(x),    Z = z_0 + sum_t z_t(x_t) > 0,    N = n_0 + sum_t n_t(x_t),

N in R^d. Read-outs are a linear one, or an MLP with one hidden layer of U ReLU units; the decision
is whether the result is positive. Norms and precision are not limited.

**Lemma.** A linear threshold function of T bits has average sensitivity at most

    M(T) = E|x_1 + ... + x_T| = T C(T-1, floor((T-1)/2)) / 2^(T-1) <= sqrt(T),    x_t = -1, +1,

with equality for majority. Proof. Write f = sign(a_0 + sum a_t x_t) in {-1, 1}, and let e_t be the
sign of a_t. A flip of bit t towards e_t never lowers f, so the chance that it changes f is
E[e_t x_t f]. The sum over t is E[f sum_t e_t x_t] <= E|sum_t e_t x_t| = E|sum_t x_t|.

**Theorem 1 (one head).** The average sensitivity is at most K M(T), where K = 1 for a linear
read-out, K = U + 1 for an MLP on a head of one dimension, and K = U + sum_{j<=d} C(U, j) for an MLP
on a head of d dimensions. Proof. A half-space of outputs, <u, o> >= c, is N'(x) - c Z(x) >= 0: a
sum over positions, so a linear threshold function of the bits. Linear read-out: f is one of them.
MLP, d = 1: the output is affine on U + 1 pieces and has at most one isolated zero on each; f can
change only where o passes one of these U + 1 points. MLP, any d: the U units have at most
sum_{j<=d} C(U, j) patterns of activity, and for each pattern the output is affine in o; f can
change only where a unit changes its activity, or where the affine function of the common pattern
changes its sign. In each case a flip that changes f changes one of K linear threshold functions.

So the parity of all T bits is impossible where K M(T) < T: from T = 2 on for a linear read-out, and
for every fixed MLP beyond some T (`longest_parity`). It is *not* impossible for one layer and one
head as such: with U = 2T the compiler builds it (`capax compile parity8 -T 8`). Kozachinskiy et al.
(2026) have the theorem, for networks of a fixed size, without the constant.

**Theorem 2 (H heads, linear read-out).** They decide the parity of s of the T bits only if H >= s.
For s = T heads suffice. Proof. Times the product of all Z_h > 0, the read-out is a polynomial p of
degree at most H in the bits; fix the bits beyond the s. If p > 0 exactly where chi(x) = prod x_t is
1 and p <= 0 elsewhere, then E[p chi] > 0. For H < s the monomial chi does not occur in p, so this
is 0. Conversely, k ones among T bits have parity sign P(k), P(k) = prod_{j=1}^T (2j - 1 - 2k), and
P(k)/prod_h (k + T + h) is a constant plus T simple fractions: T heads (`parity_by_heads`).
"""

import math
from fractions import Fraction

from capax.errors import require

_ROUNDING = 1e-8


def majority_sensitivity(T: int) -> float:
    """M(T) = T C(T-1, floor((T-1)/2)) / 2^(T-1): the largest of linear threshold functions."""
    require(T >= 1, "T", "at least one bit", T)
    return T * math.exp(-_log_ratio(T))


def sensitivity_factor(units: int = 0, dim: int = 1) -> int:
    """K of Theorem 1: `units` ReLU units behind a head of `dim` dimensions (0: linear read-out)."""
    require(units >= 0, "units", "a number of hidden units >= 0", units)
    require(dim >= 1, "dim", "at least one dimension", dim)
    if dim == 1:
        return units + 1
    return units + sum(math.comb(units, j) for j in range(min(dim, units) + 1))


def head_sensitivity_bound(T: int, units: int = 0, dim: int = 1) -> float:
    """min(T, K M(T)): no function of one head and this read-out is more sensitive on average."""
    return min(float(T), sensitivity_factor(units, dim) * majority_sensitivity(T))


def longest_parity(units: int = 0, dim: int = 1) -> int:
    """The largest T at which the bound still allows the parity of all bits: T <= K M(T).

    T/M(T) does not fall with T and is at least sqrt(T), so T <= K^2. Rounded up: every larger T is
    impossible.
    """
    K = sensitivity_factor(units, dim)
    low, high = 1, K * K + 1  # allowed; impossible
    while high - low > 1:
        middle = (low + high) // 2
        allowed = _log_ratio(middle) <= math.log(K) + _ROUNDING
        low, high = (middle, high) if allowed else (low, middle)
    return low


def _log_ratio(T: int) -> float:
    """ln(T/M(T)) = ln(2^(T-1) / C(T-1, floor((T-1)/2)))."""
    n, k = T - 1, (T - 1) // 2
    choices = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return n * math.log(2.0) - choices


def parity_by_heads(T: int) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Theorem 2 with H = T: bias and values of [CLS] in heads 1..T; positive where parity is even.

    In head h a bit 0 has the weight 1, a bit 1 the weight 2 and [CLS] the weight h, before they are
    divided by their sum k + T + h. Only [CLS] has a value.
    """
    require(T >= 1, "T", "at least one bit", T)
    poles = range(1, T + 1)

    def P(k: int) -> int:
        return math.prod(2 * j - 1 - 2 * k for j in poles)

    values = tuple(
        Fraction(P(-T - h), h * math.prod(other - h for other in poles if other != h))
        for h in poles
    )
    return Fraction((-2) ** T), values
