"""Proposition 4.4: T heads of width 3 that give log2 T inputs all T sign patterns.

Token t of input i is (cos 2 pi t/T, sin 2 pi t/T, bit i of t). Head s has the key vector
w (cos 2 pi s/T, sin 2 pi s/T, 0), the paper's w = T^2, and reads the third coordinate. Its score at
t is w cos(2 pi (s - t)/T), so the attention weights of head s are those of head 0, rotated:

    a_j = exp(-2 w sin^2(pi j/T)) / Z,    output(s, i) = sum_j a_j bit_i(s + j).

Bit i is a square wave of period P = 2^(i+1) in t. So a_j can be summed over j mod P first, and an
output is the sum over half a period. This takes O(T) operations for each input instead of T^2.

*Every norm w > 0 shatters.* exp(w cos x) is a mixture of wrapped Gaussians (Hartman and Watson
1974), and a wrapped Gaussian summed over j mod P is one again, so the summed weights K fall with
the distance on the circle of length P. A square wave g = +-1 is odd around its jump, hence at
distance x from a jump   sum_y K(x - y) g(y) = sum_{0 < y < P/2} [K(x - y) - K(x + y)] > 0.
So sign patterns alone need no norm. A margin needs a norm, of order T^2 here, which `smallest_norm`
computes.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from capax.capacity.network.head_bounds import linear_head
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.sample_points import Sample
from capax.compiler.proof.enclosed import exp_bounds
from capax.errors import require
from capax.rounding import LIBRARY, gamma
from capax.statements.forms.printed_bounds import corollary_4_5_printed

MAX_T = 1 << 22
"""An array of so many numbers takes 32 MB."""


@dataclass(frozen=True)
class Shattering:
    """The proved margins of the T heads at one norm. margins[i]: every output on input i is at
    least this far from 1/2, on the right side (negative: not proved). patterns: the number of
    proved sign patterns, at most T.
    """

    T: int
    norm: float
    margins: tuple[float, ...]
    patterns: int

    @property
    def inputs(self) -> int:
        """The number of shattered inputs, log2 T."""
        return len(self.margins)

    @property
    def margin(self) -> float:
        """The smallest distance of an output from 1/2, rounded down."""
        return min(self.margins)

    @property
    def verified(self) -> bool:
        """All T sign patterns are proved."""
        return self.patterns == self.T


def shatter(T: int, norm: float | None = None) -> Shattering:
    """Prove the sign patterns of the T heads with key vectors of length `norm` (T^2 by default)."""
    _check_length(T)
    size = float(T) ** 2 if norm is None else float(norm)
    require(0 < size < math.inf, "norm", "a finite number > 0", norm)
    low, high = _weights(T, size)
    right = np.ones(T, dtype=bool)
    margins: list[float] = []
    for i in range(T.bit_length() - 1):
        cleared = _cleared(low, high, 2 << i)
        right &= np.tile(cleared > 0, T // (2 << i))
        margins.append(float(cleared.min()))
    return Shattering(T, size, tuple(margins), int(right.sum()))


def smallest_norm(T: int, margin: float = 0.25) -> float:
    """The smallest norm, to six digits, at which every output is proved to clear 1/2 by `margin`.

    By bisection of ln(norm) below T^2; the norm that is returned has been verified.
    """
    _check_length(T)
    reachable = shatter(T).margin
    require(0 < margin <= reachable, "margin", f"a number in (0, {reachable:.6g}]", margin)
    low, high = -math.log(T) - 20, 2 * math.log(T)
    while high - low > 1e-6:
        middle = (low + high) / 2
        enough = shatter(T, math.exp(middle)).margin >= margin
        low, high = (low, middle) if enough else (middle, high)
    return math.exp(high)


def inputs_of(T: int) -> Float[np.ndarray, "inputs T 3"]:
    """The log2 T inputs themselves, in float64."""
    _check_length(T)
    t = np.arange(T)
    angle = 2 * np.pi * t / T
    bits = t >> np.arange(T.bit_length() - 1)[:, None] & 1  # [inputs, T]
    circle = np.broadcast_to(np.stack([np.cos(angle), np.sin(angle)], 1), (*bits.shape, 2))
    return np.concatenate([circle, bits[..., None]], axis=2)


def sign_patterns(T: int) -> Bool[np.ndarray, "T inputs"]:
    """The wanted sign pattern of head s: the bits of s."""
    _check_length(T)
    return (np.arange(T)[:, None] >> np.arange(T.bit_length() - 1) & 1).astype(bool)


def corollary_at(T: int, norm: float, eps: float) -> float:
    """ln N of Corollary 4.5, ours: at this norm, counting the three parameters is smaller."""
    inputs = Inputs(B_X=math.sqrt(2), B_z=1.0)
    made = linear_head(norm, 1.0, B_phi=0.5, inputs=inputs, d=3, one_query=True)
    return made.cover(Sample(T.bit_length() - 1, T), eps).value


def corollary_by_norms(T: int, norm: float, eps: float) -> float:
    """The paper's form of the same (corrected, constant 1): it grows as norm^2 and log T only."""
    sizes = {"d": 3, "m": T.bit_length() - 1, "T": T}
    return corollary_4_5_printed(1.0, 1.0, norm, eps, B_X=math.sqrt(2), **sizes)


def _weights(T: int, norm: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of e^{score - w} at distance j = 0..T-1 on the circle.

    sin(pi j/T) is taken at j <= T/2, where a relative error of the argument is no larger in the
    sine; squared, with the library's error: 2 LIBRARY and a few roundings.
    """
    j = np.arange(T)
    sine = np.sin(np.pi * np.minimum(j, T - j) / T)
    exponent = -2 * norm * sine**2
    return exp_bounds(exponent, np.abs(exponent) * (3 * LIBRARY))


def _cleared(low: np.ndarray, high: np.ndarray, P: int) -> Float[np.ndarray, " P"]:
    """By how much the output of head s clears 1/2 on the input of period P, rounded down.

    With O = sum of weights on tokens whose bit is that of s, and D the rest: (O - D)/(2 (O + D)).

    Rounding, in units of u (O + D): sums over the T/P tokens of a place T/P, twice; two half sums
    P + 1 each; the total P; two subtractions and a quotient 3. Together at most 3 T + 7, and one
    term gamma_{4 T + 8} (O + D), subtracted before the quotient, covers all of it.
    """
    T = len(low)
    own, other = (_half_sums(ends.reshape(-1, P).sum(0)) for ends in (low, high))
    total = float(high.sum())
    s = np.arange(P)
    start = np.where(s < P // 2, 0, P // 2)  # where the tokens with the bit of s begin
    difference = own[(start - s) % P] - other[(start + P // 2 - s) % P]
    difference = difference - gamma(4 * T + 8) * total
    return np.where(difference > 0, difference / (2 * total), difference)


def _half_sums(weights: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """Sums over the P/2 positions j, j + 1, ... on the circle; off by (P + 1) u times the total.

    Each is P/2 additions to a running sum of at most twice the total, and one subtraction.
    """
    P = len(weights)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([weights, weights]))])
    return sums[P // 2 : P // 2 + P] - sums[:P]


def _check_length(T: int) -> None:
    power = T >= 2 and T & (T - 1) == 0
    require(power and T <= MAX_T, "T", f"a power of two in 2..{MAX_T}", T)
