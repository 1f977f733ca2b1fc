"""Checks of numerical arguments, shared by all functions of this package."""

import sys

import numpy as np
from jaxtyping import Float

from capax.errors import counted, require


def check_positive(name: str, value: float | int) -> None:
    """Raise `InputError` unless `value` is finite and > 0 (a radius, a margin, a scale)."""
    largest = sys.float_info.max  # an integer may be larger than any float
    require(0 < value <= largest, name, "a finite number > 0", value)


def check_nonnegative(name: str, value: float | int) -> None:
    """Raise `InputError` unless `value` is a number >= 0; infinity is allowed, NaN is not."""
    require(value >= 0, name, "a number >= 0", value)


def check_probability(name: str, value: float | int) -> None:
    """Raise `InputError` unless 0 < `value` < 1 (a failure probability delta)."""
    require(0 < value < 1, name, "a number strictly between 0 and 1", value)


def check_count(name: str, value: int, at_least: int = 1) -> None:
    """Raise `InputError` unless `value` >= `at_least` (a number of points, functions, outputs)."""
    require(value >= at_least, name, f"an integer >= {at_least}", value)
    require(value <= sys.float_info.max, name, "a number that fits a float", value)


def check_finite(name: str, values: Float[np.ndarray, "..."]) -> None:
    """Raise `InputError` if an array has no entries, or one that is NaN or infinite."""
    require(values.size > 0, name, "at least one entry", f"shape {values.shape}")
    bad = int(np.size(values) - np.count_nonzero(np.isfinite(values)))
    require(bad == 0, name, "finite numbers only", counted(bad, "NaN or infinite number"))
