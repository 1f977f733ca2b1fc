"""Thresholds of literals and linear thresholds by one head and a scalar read-out (no MLP).

Let f(x) = 1 exactly when A(x) = sum_i nu_i [x_i active] exceeds a threshold t. Read position i with
value nu_i and [CLS] with -lambda/omega, lambda = delta_v sum nu + (1 - delta_v) t. Then

    output = scale (1 - delta_v) (A(x) - t) / Z > 0  exactly when f(x) = 1:

the sign is right on all 2^T inputs at *every* temperature (Proposition 5.1, monotone symmetric;
signed and weighted literals are ours: they only change nu). With y = +1 where f = 1 and -1
elsewhere, y A - y t over Z is smallest at the largest Z, so the t of the largest margin solves

    gamma = min over true p, false q of (A_p - A_q) / (Z_p + Z_q),   t = min_p (A_p - gamma Z_p)

(add the two inequalities A_p - t >= gamma Z_p and t - A_q >= gamma Z_q). With the peak
M = max |A - t|/Z and the scale c = 2/(gamma + M) taken at temperature zero, where the outputs then
lie evenly around the labels -1 and +1 (c depends on f alone, never on T),

    worst-case error = max(1 - c gamma, c M - 1),    margin = c gamma   (gamma, M times 1-delta_v).

*Detection.* If one active bit decides (OR of ones; AND, which detects zeros; NOR, NAND), [CLS]
is read with value -1 and omega is small: attention goes to an active bit if there is one, and to
[CLS] otherwise. The error then goes to zero with the temperature. With A = 1 + (s-1) delta_v, B = s
delta_v and leaks rho_0, rho_1 of none and of one active bit, the margins (A - omega)/(A + omega +
rho_1) and (omega - B)/(omega + B + rho_0) are equal at the positive root of 2 omega^2 + (rho_0 +
rho_1) omega - 2AB - A rho_0 - B rho_1 = 0 (ours).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from capax.boolean import SparseFunction
from capax.boolean.functions import row_weights
from capax.compiler.parts.literals import (
    LiteralForm,
    pattern_bits,
    threshold_level,
    threshold_weights,
)
from capax.compiler.parts.readouts import ScalarReadout
from capax.compiler.parts.selection import EncodingName, Selection

COLD = 100.0
"""A gap at which leakage is below 1e-37: the limit of zero temperature, in float64."""


@dataclass(frozen=True)
class ThresholdProblem:
    """f as a threshold of w . x, reduced to the extreme sums at each number of ones.

    `rows` = (number of ones, w . x, f): at every number of ones, the smallest and the largest sum
    among the true and among the false patterns. Margin and peak depend on these rows only.
    """

    weights: tuple[float, ...]
    rows: tuple[tuple[int, float, bool], ...]

    @cached_property
    def ones(self) -> Int[np.ndarray, " c"]:
        """Number of ones of each extreme pattern."""
        return np.array([row[0] for row in self.rows])

    @cached_property
    def sums(self) -> Float[np.ndarray, " c"]:
        """w . x of each extreme pattern."""
        return np.array([row[1] for row in self.rows])

    @cached_property
    def truth(self) -> Bool[np.ndarray, " c"]:
        """f at each extreme pattern."""
        return np.array([row[2] for row in self.rows])

    @cached_property
    def _detecting_symbols(self) -> tuple[int, ...]:
        s = len(self.weights)
        others = {1: self.truth[self.ones != 0], 0: self.truth[self.ones != s]}
        return tuple(beta for beta, truth in others.items() if truth.all() or not truth.any())

    def sorted(self) -> "ThresholdProblem":
        """The same problem with its bits in the order of their weights."""
        return ThresholdProblem(tuple(sorted(self.weights)), self.rows)

    def detects(self, beta: int) -> bool:
        """True when f only depends on whether some relevant bit is active (OR, AND, NOR, NAND)."""
        return beta in self._detecting_symbols


def literal_problem(form: LiteralForm) -> ThresholdProblem | None:
    """The problem of f = 1[q >= r] in literals, or None when phi is no threshold."""
    r = threshold_level(form)
    if r is None:
        return None
    q, ones = form.classes()
    return _reduced(np.array(form.signs, float), ones, q - float(form.num_negative), q >= r)


def linear_problem(f: SparseFunction) -> ThresholdProblem | None:
    """The problem of a Boolean function that is a weighted threshold, or None when it is not."""
    weights = threshold_weights(f)
    if weights is None:
        return None
    return _reduced(weights, row_weights(f.s), pattern_bits(f.s) @ weights, f.table > 0.5)


def tuned(selection: Selection, problem: ThresholdProblem) -> Selection:
    """The head with its [CLS] weight: 1, or the balanced omega where one active bit decides."""
    if not problem.detects(selection.beta):
        return selection
    none, one = (0, 1) if selection.beta == 1 else (selection.s, selection.s - 1)
    A, B = 1 + (selection.s - 1) * selection.delta_v, selection.s * selection.delta_v
    rho_0, rho_1 = selection.largest_leak(none), selection.largest_leak(one)
    leak, rest = rho_0 + rho_1, 2 * A * B + A * rho_0 + B * rho_1
    return replace(selection, omega=2 * rest / (math.sqrt(leak**2 + 8 * rest) + leak))


def scalar_readout(selection: Selection, problem: ThresholdProblem) -> ScalarReadout:
    """The read-out of largest margin for this selection head."""
    nu, sums = _active_form(selection, problem)
    cut = selection.delta_v * nu.sum() + (1 - selection.delta_v) * _cut(selection, problem, sums)
    return ScalarReadout(nu, -float(cut) / selection.omega, cold_scale(selection, problem))


def scalar_extremes(selection: Selection, problem: ThresholdProblem) -> tuple[float, float]:
    """margin and peak: the smallest and the largest |output| over all 2^T inputs, attained.

    The margin is negative when some sign is wrong.
    """
    gamma, peak = _extremes(selection, problem)
    factor = cold_scale(selection, problem) * (1 - selection.delta_v)
    return factor * gamma, factor * peak


def scalar_error(selection: Selection, problem: ThresholdProblem) -> float:
    """The exact maximum of |output - label| over all 2^T inputs, labels -1 and +1."""
    margin, peak = scalar_extremes(selection, problem)
    return max(1 - margin, peak - 1)


@lru_cache(maxsize=4096)
def cold_margins(
    encoding: EncodingName, beta: int, problem: ThresholdProblem
) -> tuple[float, float]:
    """gamma and M at temperature zero with omega = 1: no leakage at any T."""
    s = len(problem.weights)
    return _extremes(Selection(encoding, s, s, s, beta, a=COLD, D=COLD), problem)


def cold_scale(selection: Selection, problem: ThresholdProblem) -> float:
    """c = 2/(gamma + M) at temperature zero; 1 where one active bit decides (omega -> 0)."""
    if problem.detects(selection.beta):
        return 1.0
    return 2 / sum(cold_margins(selection.encoding, selection.beta, problem))


def limit_error(selection: Selection, problem: ThresholdProblem) -> float:
    """The error as the temperature goes to zero; a scalar read-out meets no eps below it."""
    if problem.detects(selection.beta):
        return 0.0
    gamma, peak = cold_margins(selection.encoding, selection.beta, problem)
    return (peak - gamma) / (peak + gamma)


def best_symbol(selection: Selection, problem: ThresholdProblem) -> Selection:
    """The active symbol with the smaller limit error: AND detects zeros, OR detects ones."""
    if selection.is_bag:
        return selection
    both = [replace(selection, beta=beta) for beta in (1, 0)]
    return min(both, key=lambda option: round(limit_error(option, problem), 12))


def _active_form(selection: Selection, problem: ThresholdProblem) -> tuple[np.ndarray, np.ndarray]:
    """nu and A: counting ones, or (beta = 0) counting zeros with the opposite sign."""
    weights = np.array(problem.weights)
    if selection.beta == 1:
        return weights, problem.sums
    return -weights, problem.sums - weights.sum()


def _cut(selection: Selection, problem: ThresholdProblem, sums: np.ndarray) -> float:
    """t: the cut of largest margin, or the one at which [CLS] is read with value -1 or +1."""
    if problem.detects(selection.beta):
        nu = _active_form(selection, problem)[0]
        sign = float(np.sign(nu[0]))
        return (sign * selection.omega - selection.delta_v * nu.sum()) / (1 - selection.delta_v)
    largest = selection.normaliser_range(problem.ones)[1]
    true, false = problem.truth, ~problem.truth
    gaps = sums[true][:, None] - sums[false]
    gamma = (gaps / (largest[true][:, None] + largest[false])).min()
    return float((sums[true] - gamma * largest[true]).min())


def _extremes(selection: Selection, problem: ThresholdProblem) -> tuple[float, float]:
    """gamma and M of the header, without the common factor (1 - delta_v)."""
    nu, sums = _active_form(selection, problem)
    t = _cut(selection, problem, sums)
    rest = 1 - selection.delta_v
    cut = selection.delta_v * nu.sum() + rest * t
    leak = selection.additive_leak(nu[None], np.array([-cut / selection.omega]))[0] / rest
    height = np.where(problem.truth, 1.0, -1.0) * (sums - t)
    smallest, largest = selection.normaliser_range(problem.ones)
    worst = np.minimum((height - leak) / largest, (height - leak) / smallest)
    return float(worst.min()), float(((np.abs(height) + leak) / smallest).max())


def _reduced(
    weights: np.ndarray, ones: np.ndarray, sums: np.ndarray, truth: np.ndarray
) -> ThresholdProblem:
    """Keep the extreme sums of each (number of ones, truth value)."""
    rows: list[tuple[int, float, bool]] = []
    for count in range(len(weights) + 1):
        for value in (False, True):
            here = sums[(ones == count) & (truth == value)]
            ends = sorted({float(here.min()), float(here.max())}) if here.size else []
            rows += [(count, end, value) for end in ends]
    return ThresholdProblem(tuple(weights.tolist()), tuple(rows))
