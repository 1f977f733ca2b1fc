"""The highest temperature that meets the wanted error, and the head of least norm for it.

The gap a is the inverse temperature of the head, and ||W_QK|| grows with it. For a wanted error
(any measure that falls as a grows) the smallest a is the root of measure = target; the symbol gap D
is then the one of the smallest ||W_QK||_F = ||kappa||.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from scipy.optimize import brentq, minimize_scalar

from capax.compiler.parts.selection import Selection

Measure = Callable[[Selection], float]
Tuning = Callable[[Selection], Selection]
HEADROOMS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Gaps are searched up to ln T + 60: a leakage of e^{-60} is far below float64 resolution."""
RANGE_D = (0.2, 24.0)
"""Symbol gaps that are tried; at 24 an inactive bit weighs 4e-11."""
TINY = 1e-7


def smallest_gap(selection: Selection, measure: Measure, target: float) -> float:
    """The smallest a >= 0 with measure <= target (to 1e-7, from above); inf without such a."""

    @cache  # four of eleven values of a are tried twice
    def excess(a: float) -> float:
        return measure(replace(selection, a=a)) - target

    if excess(0.0) <= 0:
        return 0.0
    tops = [math.log(selection.T) + more for more in HEADROOMS]
    high = next((top for top in tops if excess(top) <= 0), math.inf)
    if math.isinf(high):
        return high
    root: Any = brentq(excess, 0.0, high, xtol=TINY, rtol=1e-12)
    a, step = float(root), TINY
    while excess(a) > 0:
        a, step = min(a + step, high), 2 * step
    return a


def least_norm(
    selection: Selection, gap: Callable[[Selection], float], tune: Tuning = lambda head: head
) -> Selection | None:
    """The head of smallest ||kappa|| over D, with a = `gap` at each D; None when `gap` is infinite.

    `tune` sets the parameters that follow from a and D (the [CLS] weight).
    """

    @cache
    def at(D: float) -> Selection | None:
        head = replace(selection, D=D)
        a = gap(head)
        return None if math.isinf(a) else tune(replace(head, a=a))

    if selection.is_bag:
        return at(selection.D)
    found = minimize_scalar(
        lambda D: 1e9 + D if (head := at(D)) is None else head.key_norm,
        bounds=RANGE_D,
        method="bounded",
        options={"xatol": 5e-2, "maxiter": 10},
    )
    return at(float(found.x))
