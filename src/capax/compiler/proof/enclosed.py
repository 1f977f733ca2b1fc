"""Numbers with a proven error, in float64: a middle and a radius, every radius rounded up.

The promise is about real arithmetic on the stored weights, so each computed number carries a bound
on its distance from the real one. The rules (u = 2^-53, gamma_n = n u/(1 - n u)):

* a sum of n products, in any order and with or without fused steps, is off by at most
  gamma_n sum |x_i y_i|;
* a radius is itself a sum of nonnegative numbers, computed with a relative error far below 2^-20
  while n < 2^31: it is multiplied by 1 + 2^-20;
* a result that underflows is off by less than 2^-1000, which is added.

*exp* uses IEEE additions and products alone, so no mathematical library needs to be trusted:
x = k ln 2 + r with |r| < 0.36, ln 2 = H + L where H has 33 bits, so that k H is exact and r is off
by at most 2u; Taylor's polynomial of degree 14 leaves out less than 0.36^15/15! < u/100; Horner's
rule is off by gamma_28 e^0.36, or 58 u relative to e^r >= e^-0.36. Together below 64 u = 2^-47.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from capax.rounding import TINY, UNIT, UP, gamma

Numbers = Any
"""A float64 array, or the NumPy scalar that an operation on arrays without axes gives."""

EXP_LIMIT = 700.0
"""Beyond e^{+-700} a weight is given as [0, e^-700] or [e^700, inf]."""
EXP_ERROR = 2.0**-46
"""Relative, twice the proven one: it also covers the product with 1 +- EXP_ERROR."""
LN2_HIGH = float.fromhex("0x1.62e42fefp-1")
LN2_LOW = float.fromhex("0x1.473de6af278edp-34")
TAYLOR = tuple(1.0 / math.factorial(i) for i in range(14, -1, -1))


@dataclass(frozen=True)
class Enclosed:
    """Real numbers known to lie within `rad` of `mid`."""

    mid: Numbers
    rad: Numbers

    @property
    def low(self) -> Numbers:
        """A number that is not above the real one; the number itself if it is exact."""
        return np.where(self.rad == 0, self.mid, np.nextafter(self.mid - self.rad, -np.inf))

    @property
    def high(self) -> Numbers:
        """A number that is not below the real one; the number itself if it is exact."""
        return np.where(self.rad == 0, self.mid, np.nextafter(self.mid + self.rad, np.inf))

    @property
    def size(self) -> Numbers:
        """A bound on the absolute value."""
        return (np.abs(self.mid) + self.rad) * UP

    def __getitem__(self, where: Any) -> "Enclosed":
        return Enclosed(self.mid[where], self.rad[where])

    def __neg__(self) -> "Enclosed":
        return Enclosed(-self.mid, self.rad)

    def __add__(self, b: "Enclosed") -> "Enclosed":
        """The rounding error of the addition is known exactly (Knuth's two-sum): exact sums stay
        exact.

        Only its size is used; where the sum overflows the radius becomes infinite.
        """
        if not b.mid.any() and not b.rad.any():
            return self.spread(np.broadcast_shapes(self.mid.shape, b.mid.shape))
        mid = self.mid + b.mid
        with np.errstate(invalid="ignore"):
            back = mid - self.mid
            lost = np.abs((self.mid - (mid - back)) + (b.mid - back))
        rad = (self.rad + b.rad + lost) * UP
        return Enclosed(mid, np.where(np.isfinite(rad), rad, np.inf))

    def __sub__(self, b: "Enclosed") -> "Enclosed":
        return self + (-b)

    def __mul__(self, c: "Enclosed") -> "Enclosed":
        mid = self.mid * c.mid
        rad = np.abs(self.mid) * c.rad + self.rad * (np.abs(c.mid) + c.rad)
        return Enclosed(mid, (rad + 2 * UNIT * np.abs(mid)) * UP + TINY)

    def __matmul__(self, B: "Enclosed") -> "Enclosed":
        """With the error of the sums and of both factors."""
        n = self.mid.shape[-1]
        size_A, size_B = np.abs(self.mid), np.abs(B.mid)
        rad = gamma(n + 2) * (size_A @ size_B)
        if B.rad.any():
            rad = rad + size_A @ B.rad
        if self.rad.any():
            rad = rad + self.rad @ (size_B + B.rad)
        return Enclosed(self.mid @ B.mid, rad * UP + (n + 1) * TINY)

    def sum(self, axis: int) -> "Enclosed":
        """Sum along an axis."""
        lost = gamma(self.mid.shape[axis] + 2) * np.abs(self.mid).sum(axis)
        return Enclosed(self.mid.sum(axis), (self.rad.sum(axis) + lost) * UP + TINY)

    def reshape(self, *shape: int) -> "Enclosed":
        """The same numbers in another shape."""
        return Enclosed(self.mid.reshape(shape), self.rad.reshape(shape))

    def moved(self, source: int, target: int) -> "Enclosed":
        """An axis moved, as `numpy.moveaxis`."""
        parts = (np.moveaxis(x, source, target) for x in (self.mid, self.rad))
        return Enclosed(*parts)

    def spread(self, shape: tuple[int, ...]) -> "Enclosed":
        """The same numbers repeated to a shape."""
        return Enclosed(np.broadcast_to(self.mid, shape), np.broadcast_to(self.rad, shape))

    def widened(self, by: Numbers | float) -> "Enclosed":
        """All numbers within `by` of these."""
        return Enclosed(self.mid, (self.rad + by) * UP)

    def exp(self) -> "Enclosed":
        """Entry by entry, by the values at both ends."""
        return between(*exp_bounds(self.mid, self.rad))

    def inverse_root(self) -> "Enclosed":
        """x^(-1/2) of positive numbers, by the values at both ends."""
        return inverse_root_between(np.maximum(self.low, TINY), self.high)


def between(low: Numbers, high: Numbers) -> Enclosed:
    """All numbers in [low, high]; every number (0, inf) if an end is infinite."""
    with np.errstate(invalid="ignore", over="ignore"):
        mid = low + (high - low) / 2
        rad = np.maximum(high - mid, mid - low) * UP + UNIT * np.abs(mid) + TINY
    known = np.isfinite(mid) & np.isfinite(rad)
    return Enclosed(np.where(known, mid, 0.0), np.where(known, rad, np.inf))


def inverse_root_between(least: Numbers, most: Numbers) -> Enclosed:
    """x^(-1/2) for x in [least, most], least > 0. IEEE roots and quotients are off by u each."""
    low, high = 1 / np.sqrt(most), 1 / np.sqrt(least)
    return between(low * (1 - 8 * UNIT), high * (1 + 8 * UNIT))


def joined(first: Enclosed, second: Enclosed, axis: int = 0) -> Enclosed:
    """One after the other along an axis."""
    mids, rads = zip((first.mid, first.rad), (second.mid, second.rad), strict=True)
    return Enclosed(np.concatenate(mids, axis), np.concatenate(rads, axis))


def exactly(M: object) -> Enclosed:
    """Stored float64 numbers, which are exact."""
    mid = np.asarray(M, np.float64)
    return Enclosed(mid, np.zeros_like(mid))


def nearest(values: Sequence[Fraction]) -> Enclosed:
    """Rational numbers as float64, with their rounding errors."""
    mid = np.array([_float(x) for x in values], dtype=np.float64)
    pairs = zip(values, mid.tolist(), strict=True)
    lost = [abs(x - Fraction(m)) if math.isfinite(m) else None for x, m in pairs]
    rad = [math.inf if x is None else (float(x) * UP + TINY if x else 0.0) for x in lost]
    return Enclosed(mid, np.array(rad, dtype=np.float64))


def _float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.copysign(math.inf, x)


def exp_bounds(x: Numbers, error: Numbers | float) -> tuple[Numbers, Numbers]:
    """(lower, upper) bound of e^y for every y within `error` of x; x off by u |x| at most."""
    slack = np.asarray(error) * UP + 2.0**-50 * np.abs(x)
    below, above = x - slack, x + slack
    low = np.where(below < -EXP_LIMIT, 0.0, _exp(below) * (1 - EXP_ERROR))
    high = np.where(above > EXP_LIMIT, np.inf, _exp(above) * (1 + EXP_ERROR))
    return low, high


def _exp(x: Numbers) -> Numbers:
    """e^x, clipped to |x| <= 700, with a relative error below 2^-47."""
    clipped = np.clip(x, -EXP_LIMIT, EXP_LIMIT)
    k = np.rint(clipped * (1 / math.log(2)))
    r = (clipped - k * LN2_HIGH) - k * LN2_LOW
    p = np.full_like(r, TAYLOR[0])
    for coefficient in TAYLOR[1:]:
        p = p * r + coefficient
    return np.ldexp(p, k.astype(np.int32))
