"""The leap of a function: how many new variables must be found at once (Abbe et al. 2023).

Order the sets S with c_S != 0 so that each brings as few new variables as possible; the leap is the
largest number of new variables that one of them brings. AND has leap 1 (each bit alone correlates
with the label), a parity of s bits has leap s. Correlations depend on the inputs: c_S are the
coefficients in the basis of Bernoulli(p) bits,

    chi_S(x) = prod_{i in S} (x_i - p) / sqrt(p (1 - p)),    c_S = E[f chi_S].
"""

import math

import numpy as np
from jaxtyping import Float

from capax.boolean.functions import SparseFunction, only_bits
from capax.errors import require

_ROUNDING = 1e-9


def biased_coefficients(f: SparseFunction, p: float) -> Float[np.ndarray, " rows"]:
    """c_S for each of the 2^s subsets S, bits Bernoulli(p); p = 1/2 gives (-1)^|S| times fourier's.

    One variable at a time: E over x_i of (f_0, f_1) against 1 and against (x_i - p)/sqrt(p q).
    """
    only_bits(f)
    require(0 < p < 1, "p", "0 < p < 1", p)
    c, q = f.table.copy(), 1 - p
    for i in range(f.s):
        pairs = c.reshape(-1, 2, 1 << i)
        mean = q * pairs[:, 0] + p * pairs[:, 1]
        change = math.sqrt(p * q) * (pairs[:, 1] - pairs[:, 0])
        c = np.stack([mean, change], axis=1).reshape(-1)
    return c


def leap(f: SparseFunction, p: float = 0.5) -> int:
    """The leap of f for Bernoulli(p) bits (0 for constants).

    The greedy order is optimal: a set that brings few new variables now brings no more of them
    later, so taking it first never raises the leap.
    """
    c = np.abs(biased_coefficients(f, p))
    left = [int(S) for S in np.flatnonzero(c > _ROUNDING * max(1.0, float(c.max()))) if S]
    found, largest = 0, 0
    while left:
        best = min(left, key=lambda S: (S & ~found).bit_count())
        largest = max(largest, (best & ~found).bit_count())
        found |= best
        left = [S for S in left if S & ~found]
    return largest
