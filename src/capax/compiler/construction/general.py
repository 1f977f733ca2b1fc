"""Any function of s bits by a head and a ReLU network that isolates patterns (Proposition 5.1).

omega = 1, beta = 1, W_V = [P_i (i in I), v]. Because [CLS] keeps the weight of an active token, the
head outputs are the images (1_S, 1)/Z of the vertices of a cube: each is an extreme point, so one
hyperplane isolates each pattern. For pattern S with k = |S| ones, at pattern S':

    l_S = sum_{i in S} u_i - sum_{i not in S} u_i - theta_S u_CLS = (1-delta_v)(1/2 - d_H(S,S'))/Z,
    theta_S = k - (s-k) delta_v - (1-delta_v)/2,     gamma_S = (1-delta_v)/(2 Z(k, T-s)).

*Exact*, two units a pattern: g_0 + sum_S (g(S)-g_0)[relu(l_S/gamma_S) - relu(l_S/gamma_S - 1)].
*Interpolating*, one unit a pattern: g_0 + sum_S (g(S)-g_0) relu(2 Z_S l_S/(1-delta_v)), Z_S the
harmonic mean of the extreme normalisers Z_min, Z_max; at pattern S the output is
g_0 + (g(S)-g_0) Z_S/Z, off by at most |g(S)-g_0| (Z_max - Z_min)/(Z_max + Z_min) at both ends.
g_0 is the commonest value of g; patterns with g(S) = g_0 are dropped.
"""

import math
from collections import Counter

import numpy as np
from jaxtyping import Float, Int

from capax.boolean import SparseFunction
from capax.boolean.functions import row_weights
from capax.compiler.parts.literals import pattern_bits
from capax.compiler.parts.readouts import INSIDE, MLPReadout
from capax.compiler.parts.selection import Selection

KEPT = 2.0
"""Exact networks keep at least half (1/2) of the hidden margins of temperature zero."""
MAX_GENERAL_SPARSITY = 12
"""2 * 2^12 = 8192 hidden units, the largest network that is built."""


def common_value(f: SparseFunction) -> float:
    """g_0: the value most patterns share, so that the fewest units are needed."""
    counts = Counter(f.table.tolist())
    return max(sorted(counts), key=counts.__getitem__)


def isolated_patterns(f: SparseFunction) -> Int[np.ndarray, " patterns"]:
    """Rows S of the table with g(S) != g_0."""
    return np.flatnonzero(f.table != common_value(f))


def pattern_margins(selection: Selection, f: SparseFunction) -> Float[np.ndarray, " patterns"]:
    """gamma_S for each isolated pattern."""
    ones = row_weights(f.s)[isolated_patterns(f)]
    planes = _planes(selection, f)
    leak = selection.additive_leak(planes[:-1].T, planes[-1])
    return ((1 - selection.delta_v) / 2 - leak) / selection.normaliser_range(ones)[1]


def level_heights(f: SparseFunction) -> tuple[tuple[int, float], ...]:
    """(k, largest |g(S) - g_0| among the isolated patterns S with k ones), for each such k."""
    rows = isolated_patterns(f)
    ones, height = row_weights(f.s)[rows], np.abs(jumps(f))
    return tuple((int(k), float(height[ones == k].max())) for k in np.unique(ones))


def level_gap(
    selection: Selection, levels: tuple[tuple[int, float], ...], eps: float | None
) -> float:
    """The smallest a at which every pattern keeps half its margin and, with eps, its value.

    With rho = (T-s) tau: Z(k, T-s) = 1 + k + (s-k) delta + rho <= 2 (1-delta)(1+k), and for an
    interpolation within eps, h rho (1-delta) <= eps (2 (1+k+(s-k) delta) + rho (1+delta)) where h
    is the largest |g(S) - g_0| at level k: both are linear in rho. Bag: (T-k) tau <= 1 + k.
    """
    s, delta = selection.s, selection.delta
    leaks: list[float] = []
    for k, height in levels:
        if selection.is_bag:
            leaks.append(math.inf if k == selection.T else (1 + k) / (selection.T - k))
            continue
        leaks.append((KEPT * (1 - delta) - 1) * (1 + k) - (s - k) * delta)
        if eps and height * (1 - delta) > eps * (1 + delta):
            room = 2 * eps * (1 + k + (s - k) * delta)
            leaks.append(room / (height * (1 - delta) - eps * (1 + delta)))
    hidden = 1 if selection.is_bag else selection.T - s
    return gap_for_leak(min(leaks), hidden)


def gap_for_leak(leak: float, hidden: int) -> float:
    """a with hidden e^{-a} <= leak; rounded up by 1e-12."""
    if leak < 0 or (leak == 0 and hidden):
        return math.inf
    return max(0.0, math.log(hidden / leak) + 1e-12) if hidden else 0.0


def interpolation_error(selection: Selection, levels: tuple[tuple[int, float], ...]) -> float:
    """max_S |g(S) - g_0| (Z_max - Z_min)/(Z_max + Z_min): attained, and zero in the bag."""
    ones, height = np.array([k for k, _ in levels]), np.array([h for _, h in levels])
    low, high = selection.normaliser_range(ones)
    return float((height * (high - low) / (high + low)).max())


def exact_readout(selection: Selection, f: SparseFunction) -> MLPReadout:
    """Two units for each isolated pattern: a plateau of height one."""
    gamma, jump = INSIDE * pattern_margins(selection, f), jumps(f)
    planes = _planes(selection, f) / gamma
    biases = np.repeat([0.0, -1.0], len(jump))
    W_1 = np.concatenate([planes, planes], axis=1)
    return _network(f, W_1, biases, np.concatenate([jump, -jump]))


def interpolating_readout(selection: Selection, f: SparseFunction) -> MLPReadout:
    """One unit for each isolated pattern, of height Z_S/Z at its own pattern."""
    ones = row_weights(f.s)[isolated_patterns(f)]
    low, high = selection.normaliser_range(ones)
    gain = 2 * (2 * low * high / (low + high)) / (1 - selection.delta_v)
    return _network(f, _planes(selection, f) * gain, np.zeros(len(ones)), jumps(f))


def jumps(f: SparseFunction) -> np.ndarray:
    """g(S) - g_0 of the isolated patterns."""
    return f.table[isolated_patterns(f)] - common_value(f)


def _planes(selection: Selection, f: SparseFunction) -> np.ndarray:
    """Columns (+-1 for each bit, -theta_S) of l_S, one for each isolated pattern."""
    rows, delta_v = isolated_patterns(f), selection.delta_v
    signs = 2 * pattern_bits(f.s)[rows].T - 1
    k = row_weights(f.s)[rows]
    theta = k - (f.s - k) * delta_v - (1 - delta_v) / 2
    return np.concatenate([signs, -theta[None]])


def _network(f: SparseFunction, W_1: np.ndarray, b_1: np.ndarray, w_2: np.ndarray) -> MLPReadout:
    return MLPReadout(np.eye(f.s, f.s + 1), np.eye(f.s + 1)[f.s], W_1, b_1, w_2, common_value(f))
