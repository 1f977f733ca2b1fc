"""The largest value of a ratio of sums over independent choices, found and then proved.

    l(b) = (A + sum_t w_t(b_t) v_t(b_t)) / (W + sum_t w_t(b_t)),    all weights > 0.

max_b l(b) is the root of the convex, decreasing function

    g(lambda) = A - lambda W + sum_t max_b w_t(b) (v_t(b) - lambda),

the sum being over the *chosen* terms: no term is added and subtracted again. Newton's step on g is
Dinkelbach's iteration. It finds the root but proves nothing. The proof: where g(lambda) <= 0
holds with every rounding error on the wrong side, no choice exceeds lambda. So weights and values
enter as intervals (w at its upper end where v > lambda, at its lower end elsewhere), the sum of n
terms gets gamma_n sum |x_t|, and lambda is raised until the sign is certain. The largest value of
any term is always a valid end.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from capax.rounding import TINY, UP, gamma

MAX_STEPS = 100
MAX_RAISES = 120
Ends = Float[np.ndarray, " p"]


@dataclass(frozen=True)
class Ratios:
    """p problems with the same c free terms' weights, each with its own values.

    `numerator` = upper end of A, `top` = largest value of its fixed terms; W in [low, high];
    weights of the free terms by choice, upper ends of their values, and their multiplicity.
    """

    numerator: Ends
    mass_low: Ends
    mass_high: Ends
    top: Ends
    free_low: Float[np.ndarray, "c A"]
    free_high: Float[np.ndarray, "c A"]
    free_value: Float[np.ndarray, "c A p"]
    count: Float[np.ndarray, " c"]


def largest(ratios: Ratios) -> tuple[Ends, Ends]:
    """(the last value of Newton's iteration, a proven upper end of l) for each problem."""
    free = ratios.free_value.max(axis=(0, 1), initial=-np.inf)
    top = np.maximum(ratios.top, free)
    least = _overflowing_values(ratios)
    value = top
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(MAX_STEPS):
            total, _, mass = _g(ratios, value)
            moved = np.clip(value + total / np.maximum(mass, TINY), least, top)
            moved = np.where(np.isnan(moved), top, moved)
            if step and not (moved - value > 2.0**-51 * np.abs(value)).any():
                break  # after the first step we are left of the root, where steps only rise
            value = np.maximum(value, moved) if step else moved
        return value, _raised(ratios, value, top)


def certainly_at_most(ratios: Ratios, level: Ends) -> Bool[np.ndarray, " p"]:
    """True where l <= level is proved by one evaluation of g."""
    with np.errstate(over="ignore", invalid="ignore"):
        total, error, _ = _g(ratios, level)
        return total + error <= 0


def _raised(ratios: Ratios, value: Ends, top: Ends) -> Ends:
    """The least lambda found, from `value` up to `top`, at which g <= 0 is certain.

    The next trial lies slightly beyond Newton's step; if that proves nothing (a kink: one weight is
    far larger than the others) the interval between the last failure and the last proof is halved.
    """
    failed, end = value, top
    total, error, mass = _g(ratios, failed)
    scale = 2.0**-46 * np.maximum(np.abs(top), np.abs(value))
    for step in range(MAX_RAISES):
        unsettled = end - failed > scale + 4 * error / np.maximum(mass, TINY)
        if not unsettled.any():
            break
        need = np.maximum(total + error, 0.0) / np.maximum(mass, TINY)
        middle = failed + (end - failed) / 2
        beyond = failed + UP * need + 2.0**-51 * np.abs(failed) + TINY
        trial = middle if step % 2 else np.where(beyond < middle, beyond, middle)
        total, error, mass = _g(ratios, trial)
        holds = total + error <= 0
        end = np.where(holds & unsettled, trial, end)
        failed = np.where(holds | ~unsettled, failed, trial)
        if holds.any():  # if the trial was a proof, g is needed at `failed` again
            total, error, mass = _g(ratios, failed)
    return end


def _g(ratios: Ratios, value: Ends) -> tuple[Ends, Ends, Ends]:
    """(g, its proven error, the chosen mass) at `value`, for terms at their upper ends.

    A term x = w (v - lambda) has three roundings (v - lambda, the product, the multiplicity), A and
    lambda W have two, and n terms are added: gamma_{n+8} sum |x| covers all. It keeps the order of
    the choices, so the largest computed term stands for all of them.
    """
    mass = np.where(value > 0, ratios.mass_low, ratios.mass_high)
    part = value * mass
    total, size = ratios.numerator - part, np.abs(ratios.numerator) + np.abs(part)
    n = len(ratios.count) + 8
    if len(ratios.count):
        count = ratios.count[:, None]
        x, weight = _chosen(ratios, value, 0)
        for choice in range(1, ratios.free_low.shape[1]):
            other, other_weight = _chosen(ratios, value, choice)
            weight = np.where(other > x, other_weight, weight)
            x = np.maximum(other, x)
        if (ratios.count != 1).any():
            x, weight = x * count, weight * count
        total, size = total + x.sum(axis=0), size + np.abs(x).sum(axis=0)
        mass = mass + weight.sum(axis=0)
    return total, gamma(n) * size * UP + n * TINY, mass


def _chosen(ratios: Ratios, value: Ends, choice: int) -> tuple[np.ndarray, np.ndarray]:
    """w (v - lambda) and w of every free term [c, p] when it takes this choice."""
    distance = ratios.free_value[:, choice] - value
    low, high = ratios.free_low[:, choice, None], ratios.free_high[:, choice, None]
    weight = np.where(distance > 0, high, low)
    return weight * distance, weight


def _overflowing_values(ratios: Ratios) -> Ends:
    """The largest value of a weight too large for float64: the maximum is at least about this."""
    over = np.isinf(ratios.free_high)
    if not over.any():
        return np.full(ratios.top.shape, -np.inf)
    return np.where(over[..., None], ratios.free_value, -np.inf).max(axis=(0, 1))
