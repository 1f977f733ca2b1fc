"""Which constructions fit a function: symmetric in its literals, a threshold of them, or linear.

A literal is a variable or its negation. f is *symmetric in literals* when signs nu in {-1,+1}^s
exist with f(x) = phi(q(x)), q(x) = number of satisfied literals (x_i where nu_i = +1, 1 - x_i
where nu_i = -1). Negations cost nothing: sum nu_i x_i = q(x) - (number of negative literals), so
the head reads position i with weight nu_i and the threshold moves by an integer.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from capax.boolean import SparseFunction
from capax.boolean.functions import all_patterns

MAX_LINEAR_SPARSITY = 10
"""The linear program for threshold weights has 2^s rows; for larger s it is not solved."""


@dataclass(frozen=True)
class LiteralForm:
    """f(x) = phi(q(x)) with q the number of satisfied literals; `signs` = nu."""

    signs: tuple[int, ...]
    phi: tuple[float, ...]

    @property
    def num_negative(self) -> int:
        """How many literals are negated."""
        return sum(sign < 0 for sign in self.signs)

    def staircase(self) -> "LiteralForm":
        """The same negations and the same steps, with sorted literals and jumps of 1."""
        rises = np.concatenate([[0.0], np.cumsum(np.diff(self.phi) != 0)])
        return LiteralForm(tuple(sorted(self.signs)), tuple(rises.tolist()))

    def classes(self) -> tuple[Int[np.ndarray, " c"], Int[np.ndarray, " c"]]:
        """All (q, ones) that occur: satisfied literals, and relevant bits that are 1."""
        s, negative = len(self.signs), self.num_negative
        p, n = np.meshgrid(np.arange(s - negative + 1), np.arange(negative + 1))
        return (p + negative - n).ravel(), (p + n).ravel()


@lru_cache(maxsize=256)
def literal_form(f: SparseFunction) -> LiteralForm | None:
    """Signs and phi if f is symmetric in literals, else None. Needs every variable relevant.

    f is invariant under swapping literal 0 with literal i for every i, exactly when it is
    symmetric in the literals: those swaps generate all permutations. O(s 2^s).
    """
    signs = [1] * f.s
    for i in range(1, f.s):
        if _swap_invariant(f.table, f.s, i, negate=False):
            continue
        if not _swap_invariant(f.table, f.s, i, negate=True):
            return None
        signs[i] = -1
    negated_rows = sum(1 << i for i in range(f.s) if signs[i] < 0)
    levels = [((1 << k) - 1) ^ negated_rows for k in range(f.s + 1)]
    return _increasing(LiteralForm(tuple(signs), tuple(f.table[levels].tolist())))


def threshold_level(form: LiteralForm) -> int | None:
    """r with phi(q) = 1[q >= r], or None when phi is not a 0/1 step upwards."""
    steps = np.diff(form.phi)
    is_step = set(form.phi) == {0.0, 1.0} and (steps >= 0).all()
    return int(np.argmax(steps)) + 1 if is_step else None


def threshold_weights(f: SparseFunction) -> Float[np.ndarray, " s"] | None:
    """w with f(x) = 1 exactly when w . x exceeds a threshold, gap >= 1; None without such w.

    min sum |w_i|  s.t.  w.x - theta >= 1/2 where f = 1,  <= -1/2 where f = 0: a linear program in
    (w, theta), with the sign of w_i known because a threshold function is monotone in each bit.
    """
    signs = _orientation(f)
    if signs is None or not f.is_boolean or f.s > MAX_LINEAR_SPARSITY:
        return None
    from scipy.optimize import linprog

    bits = pattern_bits(f.s) * signs
    side = np.where(f.table > 0.5, -1.0, 1.0)[:, None]
    rows = side * np.hstack([bits, -np.ones((1 << f.s, 1))])
    limits = [(0, None)] * f.s + [(None, None)]
    found = linprog(np.append(np.ones(f.s), 0.0), rows, -0.5 * np.ones(1 << f.s), bounds=limits)
    return None if not found.success else _tidied(found.x[: f.s] * signs, f)


def pattern_bits(s: int) -> Float[np.ndarray, "rows s"]:
    """The 2^s patterns of the relevant bits, in the order of the truth table."""
    return all_patterns(s).astype(np.float64)


def separates(weights: Float[np.ndarray, " s"], truth: Bool[np.ndarray, " rows"]) -> float:
    """min w.x over true rows - max w.x over false rows: positive when a threshold fits."""
    sums = pattern_bits(len(weights)) @ weights
    return float(sums[truth].min() - sums[~truth].max())


def _tidied(weights: np.ndarray, f: SparseFunction) -> np.ndarray | None:
    """Integer weights if they work: most small threshold functions have them."""
    truth = f.table > 0.5
    whole = np.round(weights)
    best = whole if separates(whole, truth) >= 1 - 1e-9 else weights
    return best if separates(best, truth) > 0.5 else None


def _orientation(f: SparseFunction) -> np.ndarray | None:
    """+1 (-1) if f never falls (rises) as bit i goes from 0 to 1; None if f does both."""
    signs = np.zeros(f.s)
    for i in range(f.s):
        low, high = f.split(i)
        if (low <= high).all():
            signs[i] = 1.0
        elif (low >= high).all():
            signs[i] = -1.0
        else:
            return None
    return signs


def _swap_invariant(table: np.ndarray, s: int, i: int, negate: bool) -> bool:
    """Is f unchanged when bits 0 and i are swapped (negate: and both are flipped)?"""
    axes = table.reshape((2,) * s)  # axis s-1-i is bit i
    first, second = s - 1, s - 1 - i
    swapped = np.swapaxes(axes, first, second)
    if negate:
        swapped = np.flip(swapped, axis=(first, second))
    return bool(np.array_equal(axes, swapped))


def _increasing(form: LiteralForm) -> LiteralForm:
    """Negate every literal if phi then rises: NAND becomes an OR of negated bits."""
    if (np.diff(form.phi) >= 0).all() or not (np.diff(form.phi) <= 0).all():
        return form
    return LiteralForm(tuple(-sign for sign in form.signs), form.phi[::-1])
