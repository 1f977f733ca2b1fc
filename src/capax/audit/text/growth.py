"""How n95 grows with the context: the slope of ln n95 against ln T, with an interval.

Rows are averaged in half octaves of T (rows of one text are correlated, so each bin counts once). A
line is fitted through the bins, and the interval is the 95 % t-interval of its slope from the
residuals. The interval belongs to this fit and these rows. It does not cover another text, or
another part of the same text: rows of neighbouring bins come from one window, and their errors are
correlated.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

LEVEL = 0.95
FEWEST_BINS = 4


@dataclass(frozen=True)
class Growth:
    """Slope [L, H] with its interval, and the curve: T [bins], n95 [L, H, bins]."""

    slope: Float[np.ndarray, "L H"] | None
    low: Float[np.ndarray, "L H"] | None
    high: Float[np.ndarray, "L H"] | None
    T: Float[np.ndarray, "bins"]
    n95: Float[np.ndarray, "L H bins"]


def growth(T: np.ndarray, n95: Float[np.ndarray, "L H rows"]) -> Growth:
    """Exponents of n95(T); None with fewer than four half octaves of T."""
    bins = np.floor(2 * np.log2(T) + 1e-9).astype(int)
    kinds = np.unique(bins)
    x = np.array([np.log(T[bins == b]).mean() for b in kinds])
    y = np.stack([np.log(n95[..., bins == b]).mean(axis=-1) for b in kinds], axis=-1)
    curve = (np.exp(x), np.exp(y))
    if len(kinds) < FEWEST_BINS:
        return Growth(None, None, None, *curve)
    slope, half = slope_interval(x, y)
    return Growth(slope, slope - half, slope + half, *curve)


def slope_interval(x: np.ndarray, y: Float[np.ndarray, "*s n"]) -> tuple[np.ndarray, np.ndarray]:
    """Least squares through (x, y): slope, and half the width of its 95 % t-interval."""
    centred = x - x.mean()
    spread = (centred**2).sum()
    slope = (y * centred).sum(axis=-1) / spread
    fitted = y.mean(axis=-1, keepdims=True) + slope[..., None] * centred
    freedom = len(x) - 2
    variance = ((y - fitted) ** 2).sum(axis=-1) / freedom
    return slope, stdtrit(freedom, 0.5 + LEVEL / 2) * np.sqrt(variance / spread)
