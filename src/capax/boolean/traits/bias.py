"""How often f is 1 when the bits are Bernoulli(p), and every p that makes it 1 half of the time."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np

from capax.boolean.functions import SparseFunction, only_bits, row_weights
from capax.errors import InputError, require

Polynomial = list[Fraction]
"""Coefficients, lowest power first, without trailing zeros; [] is the zero polynomial."""


def row_probabilities(s: int, p: float) -> np.ndarray:
    """P[x_I = row] = p^(ones) (1-p)^(zeros) for each of the 2^s rows."""
    check_probability(p)
    weights = row_weights(s)
    return np.asarray(float(p) ** weights * (1.0 - float(p)) ** (s - weights))


def bias(f: SparseFunction, p: float) -> float:
    """E[f(x)] for i.i.d. Bernoulli(p) bits; for a Boolean f this is P[f(x) = 1]."""
    only_bits(f)
    return float(row_probabilities(f.s, p) @ f.table)


def check_probability(p: float) -> None:
    """Raise `InputError` unless 0 <= p <= 1."""
    require(0.0 <= p <= 1.0, "p", "a probability in [0, 1]", p)


def balancing_probabilities(f: SparseFunction) -> tuple[float, ...]:
    """Every p in (0, 1) with P[f(x) = 1] = 1/2, in rising order.

    With N_k true rows of weight k, the roots of sum_k (2 N_k - C(s,k)) p^k (1-p)^(s-k), which has
    integer coefficients: double roots (x1 ^ x2 at p = 1/2) are removed by exact gcd, and a Sturm
    chain isolates the rest, so that no root is missed.
    Raises `InputError` for a real-valued table, or when no p balances f.
    """
    only_bits(f)
    require(f.is_boolean, "function", "a Boolean function to balance", f)
    chain = _sturm_chain(_square_free(_excess(f)))
    zero, one = Fraction(0), Fraction(1)
    roots = _roots_between(chain, zero, one) if len(chain[0]) > 1 else []
    inside = tuple(float(p) for p in roots if zero < p < one)
    if not inside:
        raise InputError(f"p: no p in (0, 1) balances {f}; give p as a number instead")
    return inside


def balancing_probability(f: SparseFunction) -> float:
    """The solution of `balancing_probabilities` nearest to 1/2 (the larger of two equally near)."""
    return min(balancing_probabilities(f), key=lambda p: (round(abs(p - 0.5), 12), -p))


def _excess(f: SparseFunction) -> Polynomial:
    """2 P[f = 1] - 1 as a polynomial in p, by expanding each p^k (1-p)^(s-k)."""
    true_rows = np.bincount(row_weights(f.s), weights=f.table, minlength=f.s + 1)
    coefficients = [Fraction(0)] * (f.s + 1)
    for k in range(f.s + 1):
        excess = 2 * int(true_rows[k]) - comb(f.s, k)
        for j in range(f.s - k + 1):
            coefficients[k + j] += excess * comb(f.s - k, j) * (-1) ** j
    return _trimmed(coefficients)


def _trimmed(a: Polynomial) -> Polynomial:
    while a and a[-1] == 0:
        a = a[:-1]
    return a


def _derivative(a: Polynomial) -> Polynomial:
    return _trimmed([k * c for k, c in enumerate(a)][1:])


def _divided(a: Polynomial, b: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and remainder of a / b."""
    quotient, rest = [Fraction(0)] * max(len(a) - len(b) + 1, 0), list(a)
    while len(rest) >= len(b):
        factor, shift = rest[-1] / b[-1], len(rest) - len(b)
        quotient[shift] = factor
        for i, c in enumerate(b):
            rest[shift + i] -= factor * c
        rest = _trimmed(rest[:-1])
    return _trimmed(quotient), rest


def _square_free(a: Polynomial) -> Polynomial:
    """a / gcd(a, a'): the same roots, each once."""
    g, rest = a, _derivative(a)
    while rest:
        g, rest = rest, _divided(g, rest)[1]
    return _divided(a, g)[0]


def _sturm_chain(a: Polynomial) -> list[Polynomial]:
    chain, following = [a], _derivative(a)
    while following:
        chain.append(following)
        following = [-c for c in _divided(chain[-2], chain[-1])[1]]
    return chain


def _value(a: Polynomial, x: Fraction) -> Fraction:
    total = Fraction(0)
    for c in reversed(a):
        total = total * x + c
    return total


def _sign_changes(chain: list[Polynomial], x: Fraction) -> int:
    signs = [v > 0 for v in (_value(a, x) for a in chain) if v != 0]
    return sum(left != right for left, right in itertools.pairwise(signs))


def _roots_between(chain: list[Polynomial], low: Fraction, high: Fraction) -> list[Fraction]:
    """Roots in (low, high], by Sturm's theorem: their number is the drop in sign changes."""
    count = _sign_changes(chain, low) - _sign_changes(chain, high)
    if count == 0:
        return []
    if count == 1 and _value(chain[0], low) * _value(chain[0], high) < 0:
        return [_bisected(chain[0], low, high)]
    if _value(chain[0], high) == 0 and high - low < Fraction(1, 1 << 60):
        return [high]
    middle = (low + high) / 2
    return _roots_between(chain, low, middle) + _roots_between(chain, middle, high)


def _bisected(a: Polynomial, low: Fraction, high: Fraction) -> Fraction:
    """The one root between `low` and `high`, where the signs differ, to 2^-60."""
    rising = _value(a, high) > 0
    while high - low > Fraction(1, 1 << 60):
        middle = (low + high) / 2
        value = _value(a, middle)
        if value == 0:
            return middle
        low, high = (low, middle) if (value > 0) == rising else (middle, high)
    return (low + high) / 2
