"""The selection head each family asks for: least norm for the wanted error or margin.

Many functions lead to the same head (all permutations of the bits, all tables with the same
levels), so heads on orthonormal vectors are remembered. Codes are measured, hence never shared.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from capax.boolean import SparseFunction
from capax.compiler import general, symmetric, threshold
from capax.compiler.incoherent import CodedSelection
from capax.compiler.literals import LiteralForm
from capax.compiler.selection import Selection
from capax.compiler.temperature import least_norm

KEPT = 2.0
"""Exact networks keep at least half (1/2) of the hidden margins of temperature zero."""
MEMORY = 4096


def scalar_head(
    head: Selection, problem: threshold.ThresholdProblem, target: float
) -> Selection | None:
    """The least ||W_QK||_F with |output - label| <= target on all inputs."""
    return _for(head, _scalar_head)(head, problem, target)


def symmetric_head(head: Selection, form: LiteralForm) -> Selection | None:
    """The least ||W_QK||_F at which every step keeps half of its margin of temperature zero."""
    return _for(head, _symmetric_head)(head, form)


def general_head(head: Selection, f: SparseFunction, eps: float | None) -> Selection | None:
    """The same for the pattern margins; with `eps`, and interpolation within eps."""
    if isinstance(head, CodedSelection):
        cold = general.pattern_margins(_cold(head), f)
        return least_norm(head, lambda h: _loss(general.pattern_margins(h, f), cold), KEPT)
    return _general_head(head, general.level_heights(f), eps)


def _for(head: Selection, remembered: Callable) -> Callable:
    """The remembering function, or the plain one behind it for codes."""
    return remembered.__wrapped__ if isinstance(head, CodedSelection) else remembered  # type: ignore[attr-defined]


@lru_cache(maxsize=MEMORY)
def _scalar_head(
    head: Selection, problem: threshold.ThresholdProblem, target: float
) -> Selection | None:
    def error(option: Selection) -> float:
        return threshold.scalar_error(option, problem)

    return least_norm(head, error, target, lambda option: threshold.tuned(option, problem))


@lru_cache(maxsize=MEMORY)
def _symmetric_head(head: Selection, form: LiteralForm) -> Selection | None:
    cold = symmetric.step_margins(_cold(head), form)
    return least_norm(head, lambda h: _loss(symmetric.step_margins(h, form), cold), KEPT)


@lru_cache(maxsize=MEMORY)
def _general_head(
    head: Selection, levels: tuple[tuple[int, float], ...], eps: float | None
) -> Selection | None:
    def measure(option: Selection) -> float:
        loss = general.level_loss(option, levels)
        if not eps:
            return loss
        return max(loss, KEPT * general.interpolation_error(option, levels) / eps)

    return least_norm(head, measure, KEPT)


def _cold(head: Selection) -> Selection:
    """The same head at temperature zero, without any leakage."""
    cold = threshold.COLD
    return Selection("deterministic", head.s, head.s, head.s, a=cold, D=cold)


def _loss(margins: np.ndarray, cold: np.ndarray) -> float:
    """max of (margin at temperature zero)/(margin): 2 means that half of it is kept."""
    if (margins <= 0).any():
        return np.inf
    return float((cold / margins).max())
