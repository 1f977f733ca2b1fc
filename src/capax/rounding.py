"""Rounding on the safe side: the constants and functions that every certified number uses.

A computed number is *certified* when the real number is proved to lie on one side of it. Which tool
to use depends on how the number was made.

| the number | use |
|---|---|
| an array on the way to a proof | `capax.compiler.proof.enclosed.Enclosed`: middle and radius |
| a float64 function traced by JAX | `capax.capacity.margins.running_error` |
| a sum or dot product of n terms | error <= `gamma(n)` times the sum of the absolute values |
| the result of at most n roundings | `raised(x, n)`, `lowered(x, n)` |
| a radius or another sum of terms >= 0 | multiply it by `UP`, add `TINY` |
| a few operations on positive numbers | multiply it by `ROUND_UP` (6 roundings) |
| the last step of a long float64 formula | multiply it by `SLACK` (up to 2^22 roundings) |
| log, exp, erf, tanh of a library | relative error `LIBRARY`; an assumption, and tested |
| a number that is stored or printed | `digits_up`, `digits_down`: twelve digits |

Three rules decide between them.

1. *Relative errors need numbers of one sign.* `UP`, `ROUND_UP`, `SLACK` and `raised` are relative
   to the result. After a subtraction the result says nothing about the error: use `gamma` with the
   sizes of the terms, or an `Enclosed` number.
2. *Underflow is absolute.* A product of two float64 numbers may lose up to 2^-1074, which no
   relative factor covers: add `TINY` wherever a product can underflow. In float32 the loss is up to
   2^-126 where small numbers are flushed to zero, and later factors multiply it
   (`capax.compiler.certificate.float32`).
3. *Round once more than you think.* The error bound is itself computed in floating point; `UP`
   covers the rounding of up to 2^31 nonnegative terms.

u = 2^-53 is the unit roundoff of float64: fl(x op y) = (x op y)(1 + d), |d| <= u, unless the result
underflows. `UNIT32` is that of float32.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

UNIT = 2.0**-53
"""Unit roundoff of float64."""
UNIT32 = 2.0**-24
"""Unit roundoff of float32."""
TINY = 2.0**-1000
"""Added where numbers may underflow: more than 2^70 underflows lose."""
UP = 1.0 + 2.0**-20
"""Factor for a sum of up to 2^31 nonnegative terms, such as a radius."""
ROUND_UP = 1.0 + 2.0**-50
"""Factor for at most 6 roundings of positive numbers, its own product aside."""
SLACK = 1.0 + 1e-9
"""Factor for the last step of a formula of up to 2^22 roundings of positive numbers."""
LIBRARY = 2.0**-48
"""Assumed relative error of an elementary function of a library: 32 roundings."""


def gamma(n: int, unit: float = UNIT) -> float:
    """gamma_n = n u/(1 - n u), rounded up; infinite where n u >= 1."""
    share = n * unit
    return math.inf if share >= 1 else share / (1 - share) * (1 + 1e-9)


def raised(x: Any, roundings: int = 4) -> Any:
    """At least the real number of which x is off by so many roundings, relative to x."""
    return x + 2 * roundings * UNIT * np.abs(x) + TINY


def lowered(x: Any, roundings: int = 4) -> Any:
    """At most the real number of which x is off by so many roundings, relative to x."""
    return x - 2 * roundings * UNIT * np.abs(x) - TINY


def digits_up(x: float) -> float:
    """x at twelve significant digits, rounded up: what is certified, the same on every machine.

    The last digit is worth at least 1e-12 of x, so that another order of summation, which moves x
    by some 1e-15, rarely changes it and never undoes the bound by more than it adds.
    """
    if x == 0 or not math.isfinite(x):
        return x
    unit = Fraction(10) ** (math.floor(math.log10(abs(x))) - 11)
    steps = Fraction(x) / unit
    if steps.denominator == 1:
        return x
    rounded = float(math.ceil(steps + Fraction(1, 100)) * unit)
    return rounded if rounded >= x else math.nextafter(rounded, math.inf)


def digits_down(x: float) -> float:
    """The same downwards."""
    return -digits_up(-x)
