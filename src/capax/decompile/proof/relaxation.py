"""Activations between two parallel lines: sigma(h) - alpha h in [low, high] for h in an interval.

relu: the chord, exact at the ends and the kink. gelu and tanh: the interval is cut into pieces;
on a piece with centre c and half-width e Taylor's formula gives

    |(sigma(h) - alpha h) - (sigma(c) - alpha c)| <= |sigma'(c) - alpha| e + (e^2/2) max |sigma''|,

max |sigma''| over the piece from its ends and critical points:
gelu'' = (2 - h^2) phi(h), critical at 0 and +-2;  tanh'' = -2 t (1 - t^2), largest 4/(3 sqrt 3) at
tanh^2 = 1/3. The slope alpha is any float; it only decides how tight the lines are.
"""

import math
from collections.abc import Callable

import numpy as np

from capax.errors import require
from capax.rounding import LIBRARY, TINY, UNIT, UP

PIECES = 8
_ROOT_2PI = math.sqrt(2 * math.pi)
_TANH_CRITICAL = math.atanh(1 / math.sqrt(3))


def _gelu(h: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return 0.5 * h * (1.0 + erf(h * math.sqrt(0.5)))


def _gelu_slope(h: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return 0.5 * (1.0 + erf(h * math.sqrt(0.5))) + h * np.exp(-0.5 * h * h) / _ROOT_2PI


def _gelu_bend(h: np.ndarray) -> np.ndarray:
    return np.abs((2.0 - h * h) * np.exp(-0.5 * h * h)) / _ROOT_2PI


def _tanh_slope(h: np.ndarray) -> np.ndarray:
    return 1.0 - np.tanh(h) ** 2


def _tanh_bend(h: np.ndarray) -> np.ndarray:
    t = np.tanh(h)
    return np.abs(2.0 * t * (1.0 - t * t))


Map = Callable[[np.ndarray], np.ndarray]
# sigma, sigma', |sigma''|, its critical points
_SMOOTH: dict[str, tuple[Map, Map, Map, tuple[float, ...]]] = {
    "gelu": (_gelu, _gelu_slope, _gelu_bend, (-2.0, 0.0, 2.0)),
    "tanh": (np.tanh, _tanh_slope, _tanh_bend, (-_TANH_CRITICAL, _TANH_CRITICAL)),
}


def relaxed(
    name: str, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(alpha, below, above): alpha h + below <= sigma(h) <= alpha h + above on [low, high]."""
    if name == "identity":
        return np.ones_like(low), np.zeros_like(low), np.zeros_like(low)
    if name == "relu":
        return _relu(low, high)
    require(name in _SMOOTH, "activation", f"identity, relu, {', '.join(_SMOOTH)}", name)
    return _smooth(name, low, high)


def _relu(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.maximum(high, 0) - np.maximum(low, 0)
    alpha = np.clip(ends / np.maximum(high - low, TINY), 0.0, 1.0)
    kink = np.clip(0.0, low, high)
    at = [np.maximum(h, 0) - alpha * h for h in (low, high, kink)]
    slack = 4 * UNIT * np.maximum(np.abs(low), np.abs(high)) + TINY
    return alpha, np.minimum.reduce(at) - slack, np.maximum.reduce(at) + slack


def _smooth(
    name: str, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sigma, slope, bend, critical = _SMOOTH[name]
    width = high - low
    chord = (sigma(high) - sigma(low)) / np.maximum(width, TINY)
    alpha = np.where(width > 1e-3, chord, slope(low + width / 2))
    below, above = np.full(low.shape, np.inf), np.full(low.shape, -np.inf)
    for piece in range(PIECES):
        c = low + width * ((piece + 0.5) / PIECES)
        e = (width * (0.5 / PIECES) + 8 * UNIT * (np.abs(low) + np.abs(high))) * UP + TINY
        left, right = c - e, c + e
        worst = np.maximum(bend(left), bend(right))
        for point in critical:
            inside = (left <= point) & (point <= right)
            worst = np.where(inside, np.maximum(worst, bend(np.full_like(c, point))), worst)
        value = sigma(c) - alpha * c
        off = np.abs(slope(c) - alpha) * e + 0.5 * e * e * worst * (1 + LIBRARY)
        # library errors of sigma, sigma' and the products around them
        off = (off + 4 * LIBRARY * (1.0 + np.abs(c)) * (1.0 + e)) * UP
        below, above = np.minimum(below, value - off), np.maximum(above, value + off)
    return alpha, below, above
