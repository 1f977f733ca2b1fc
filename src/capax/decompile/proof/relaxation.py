"""Activations between two parallel lines: sigma(h) - alpha h in [low, high] for h in an interval.

relu: the chord, exact at the ends and the kink. gelu and tanh: the interval is cut into pieces;
on a piece with centre c and half-width e Taylor's formula gives

    |(sigma(h) - alpha h) - (sigma(c) - alpha c)| <= |sigma'(c) - alpha| e + (e^2/2) max |sigma''|,

max |sigma''| over the piece from its ends and critical points:
gelu'' = (2 - h^2) phi(h), critical at 0 and +-2;  tanh'' = -2 t (1 - t^2), largest 4/(3 sqrt 3) at
tanh^2 = 1/3. The slope alpha is any float; it only decides how tight the lines are.

gelu_tanh(h) = (h/2)(1 + tanh u), u = c (h + a h^3), is the gelu of GPT-2. With s = 1 - tanh^2 u,

    gelu_tanh'' = s u' + (h/2)(s u'' - 2 tanh(u) s u'^2),   u' = c (1 + 3 a h^2),   u'' = 6 a c h,

so |gelu_tanh''| <= s (u' + (|h|/2)(|u''| + 2 u'^2)). s falls with |h|, the bracket grows: over a
piece s is taken at the smallest |h| and the bracket at the largest.
"""

import math
from collections.abc import Callable

import numpy as np

from capax.errors import require
from capax.rounding import LIBRARY, TINY, UNIT, UP

PIECES = 8
_ROOT_2PI = math.sqrt(2 * math.pi)
_TANH_CRITICAL = math.atanh(1 / math.sqrt(3))
_INNER, _CUBIC = math.sqrt(2 / math.pi), 0.044715


def gelu(h: np.ndarray) -> np.ndarray:
    """h (1 + erf(h / sqrt 2)) / 2."""
    from scipy.special import erf

    return 0.5 * h * (1.0 + erf(h * math.sqrt(0.5)))


def _gelu_slope(h: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return 0.5 * (1.0 + erf(h * math.sqrt(0.5))) + h * np.exp(-0.5 * h * h) / _ROOT_2PI


def _gelu_bend(h: np.ndarray) -> np.ndarray:
    return np.abs((2.0 - h * h) * np.exp(-0.5 * h * h)) / _ROOT_2PI


def _inner(h: np.ndarray) -> np.ndarray:
    return _INNER * (h + _CUBIC * h * h * h)


def gelu_tanh(h: np.ndarray) -> np.ndarray:
    """h (1 + tanh(c (h + a h^3))) / 2."""
    return 0.5 * h * (1.0 + np.tanh(_inner(h)))


def _inner_slope(h: np.ndarray) -> np.ndarray:
    return _INNER * (1.0 + 3 * _CUBIC * h * h)


def _one_minus_square(u: np.ndarray) -> np.ndarray:
    """1 - tanh^2 u = 1 / cosh^2 u, which keeps its digits where tanh is nearly 1."""
    return np.cosh(np.clip(u, -300.0, 300.0)) ** -2.0


def _gelu_tanh_slope(h: np.ndarray) -> np.ndarray:
    u = _inner(h)
    return 0.5 * (1.0 + np.tanh(u)) + 0.5 * h * _one_minus_square(u) * _inner_slope(h)


def _gelu_tanh_most(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """At least |gelu_tanh''| on [left, right]."""
    far = np.maximum(np.abs(left), np.abs(right))
    near = np.where((left <= 0) & (right >= 0), 0.0, np.minimum(np.abs(left), np.abs(right)))
    first, second = _inner_slope(far), 6 * _CUBIC * _INNER * far
    return _one_minus_square(_inner(near)) * (first + 0.5 * far * (second + 2 * first * first))


def _tanh_slope(h: np.ndarray) -> np.ndarray:
    return 1.0 - np.tanh(h) ** 2


def _tanh_bend(h: np.ndarray) -> np.ndarray:
    t = np.tanh(h)
    return np.abs(2.0 * t * (1.0 - t * t))


Map = Callable[[np.ndarray], np.ndarray]
Most = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _by_critical_points(bend: Map, critical: tuple[float, ...]) -> Most:
    """At least |sigma''| on [left, right], from its ends and the critical points inside."""

    def most(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        worst = np.maximum(bend(left), bend(right))
        for point in critical:
            inside = (left <= point) & (point <= right)
            worst = np.where(inside, np.maximum(worst, bend(np.full_like(left, point))), worst)
        return worst

    return most


# sigma, sigma', the largest |sigma''| on an interval
_SMOOTH: dict[str, tuple[Map, Map, Most]] = {
    "gelu": (gelu, _gelu_slope, _by_critical_points(_gelu_bend, (-2.0, 0.0, 2.0))),
    "gelu_tanh": (gelu_tanh, _gelu_tanh_slope, _gelu_tanh_most),
    "tanh": (
        np.tanh,
        _tanh_slope,
        _by_critical_points(_tanh_bend, (-_TANH_CRITICAL, _TANH_CRITICAL)),
    ),
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
    sigma, slope, most = _SMOOTH[name]
    width = high - low
    chord = (sigma(high) - sigma(low)) / np.maximum(width, TINY)
    alpha = np.where(width > 1e-3, chord, slope(low + width / 2))
    below, above = np.full(low.shape, np.inf), np.full(low.shape, -np.inf)
    for piece in range(PIECES):
        c = low + width * ((piece + 0.5) / PIECES)
        e = (width * (0.5 / PIECES) + 8 * UNIT * (np.abs(low) + np.abs(high))) * UP + TINY
        worst = most(c - e, c + e)
        value = sigma(c) - alpha * c
        off = np.abs(slope(c) - alpha) * e + 0.5 * e * e * worst * (1 + LIBRARY)
        # library errors of sigma, sigma' and the products around them
        off = (off + 4 * LIBRARY * (1.0 + np.abs(c)) * (1.0 + e)) * UP
        below, above = np.minimum(below, value - off), np.maximum(above, value + off)
    return alpha, below, above
