"""Arrays of real numbers known up to a radius: every operation rounds outward.

A ball is a float64 midpoint and a radius; it stands for every real array within. Rounding to
nearest errs by at most u |result| + eta (u = 2^-53, eta covers underflow), and a sum of n products
in any order, fused or not, by gamma_n sum |a_i b_i|, gamma_n = n u / (1 - n u) (Higham). The radii
are sums of non-negative floats whose own rounding is covered by the factor `UP`.

exp, erf and tanh of the platform are taken to be right to `LIBRARY` relative error, 32 times the
rounding unit; the tests compare them with extended precision.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

U = 2.0**-53
ETA = 1e-300
LIBRARY = 2.0**-48
UP = 1.0 + 2.0**-36
"""Covers the rounding of radii: they are sums of fewer than 2^16 products each."""

Real = Any
"""A float64 array, or the NumPy scalar that an operation on arrays without axes gives."""


def gamma(n: int) -> float:
    """gamma_n = n u / (1 - n u), rounded up."""
    return UP * n * U / (1.0 - n * U)


@dataclass(frozen=True)
class Ball:
    """All real arrays within `rad` of `mid`, entry by entry."""

    mid: Real
    rad: Real

    @staticmethod
    def exact(values: Any) -> "Ball":
        """Floats taken as the real numbers they are."""
        mid = np.asarray(values, dtype=np.float64)
        return Ball(mid, np.zeros_like(mid))

    @staticmethod
    def between(low: Real, high: Real) -> "Ball":
        """The smallest ball around [low, high], rounded outward."""
        mid = low + (high - low) / 2
        rad = np.maximum(high - mid, mid - low) * UP + U * np.abs(mid) + ETA
        return Ball(mid, rad)

    @property
    def low(self) -> Real:
        """A lower bound of every number in the ball."""
        value = self.mid - self.rad
        return value - U * np.abs(value) * 2 - ETA

    @property
    def high(self) -> Real:
        """An upper bound of every number in the ball."""
        value = self.mid + self.rad
        return value + U * np.abs(value) * 2 + ETA

    @property
    def size(self) -> Real:
        """An upper bound of the absolute values."""
        return (np.abs(self.mid) + self.rad) * UP

    def __add__(self, other: "Ball") -> "Ball":
        mid = self.mid + other.mid
        return Ball(mid, (self.rad + other.rad + U * np.abs(mid)) * UP + ETA)

    def __neg__(self) -> "Ball":
        return Ball(-self.mid, self.rad)

    def __sub__(self, other: "Ball") -> "Ball":
        return self + (-other)

    def __mul__(self, other: "Ball") -> "Ball":
        mid = self.mid * other.mid
        rad = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return Ball(mid, (rad + U * np.abs(mid)) * UP + ETA)

    def __matmul__(self, other: "Ball") -> "Ball":
        a, b = np.abs(self.mid), np.abs(other.mid)
        n = self.mid.shape[-1]
        rad = gamma(n) * (a @ b) + a @ other.rad + self.rad @ (b + other.rad)
        return Ball(self.mid @ other.mid, rad * UP + n * ETA)

    def __getitem__(self, index: Any) -> "Ball":
        return Ball(self.mid[index], self.rad[index])

    def sum(self, axis: int) -> "Ball":
        """Sum along an axis."""
        n = self.mid.shape[axis]
        rad = self.rad.sum(axis) + gamma(max(n, 1)) * np.abs(self.mid).sum(axis)
        return Ball(self.mid.sum(axis), rad * UP + ETA)

    def reshape(self, *shape: int) -> "Ball":
        """The same numbers in another shape."""
        return Ball(self.mid.reshape(shape), self.rad.reshape(shape))

    def moved(self, source: int, target: int) -> "Ball":
        """An axis moved, as `numpy.moveaxis`."""
        return Ball(np.moveaxis(self.mid, source, target), np.moveaxis(self.rad, source, target))

    def exp(self) -> "Ball":
        """Entrywise exponential, by its values at both ends."""
        with np.errstate(under="ignore"):
            low, high = np.exp(self.low), np.exp(self.high)
        return Ball.between(low * (1 - LIBRARY), high * (1 + LIBRARY) + ETA)

    def inverse_root(self) -> "Ball":
        """x^(-1/2) of positive numbers, by its values at both ends."""
        return inverse_root_between(np.maximum(self.low, ETA), self.high)


def inverse_root_between(least: Real, most: Real) -> Ball:
    """x^(-1/2) for x in [least, most], least > 0 (itself rounded once)."""
    low, high = 1 / np.sqrt(most), 1 / np.sqrt(least)
    return Ball.between(low * (1 - 8 * U), high * (1 + 8 * U))
