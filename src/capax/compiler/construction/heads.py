"""The selection head of each family: least norm for the wanted error or margin.

Many functions lead to the same head (all permutations of the bits, all tables with the same
levels), so heads on orthonormal vectors are cached. Codes are measured, hence never shared.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from capax.boolean import SparseFunction
from capax.compiler.construction import general, symmetric, threshold_head
from capax.compiler.parts.incoherent import CodedSelection
from capax.compiler.parts.literals import LiteralForm
from capax.compiler.parts.selection import Selection
from capax.compiler.parts.temperature import least_norm, smallest_gap

KEPT = general.KEPT
MEMORY = 4096


def scalar_head(
    head: Selection, problem: threshold_head.ThresholdProblem, target: float
) -> Selection | None:
    """The least ||W_QK||_F with |output - label| <= target on all inputs."""
    if isinstance(head, CodedSelection):
        return _scalar_head.__wrapped__(head, problem, target)
    return _scalar_head(head, problem.sorted(), target)


def symmetric_head(head: Selection, form: LiteralForm) -> Selection | None:
    """The least ||W_QK||_F at which every step keeps half of its margin of temperature zero."""
    if isinstance(head, CodedSelection):
        return _symmetric_head.__wrapped__(head, form)
    return _symmetric_head(head, form.staircase())


def general_head(head: Selection, f: SparseFunction, eps: float | None) -> Selection | None:
    """The same for the pattern margins; with `eps`, and interpolation within eps."""
    if isinstance(head, CodedSelection):
        cold = general.pattern_margins(_cold(head), f)
        return _by_margins(head, lambda option: general.pattern_margins(option, f), cold)
    return _general_head(head, general.level_heights(f), eps)


@lru_cache(maxsize=MEMORY)
def _scalar_head(
    head: Selection, problem: threshold_head.ThresholdProblem, target: float
) -> Selection | None:
    def tune(option: Selection) -> Selection:
        return threshold_head.tuned(option, problem)

    def error(option: Selection) -> float:
        return threshold_head.scalar_error(tune(option), problem)

    return least_norm(head, lambda option: smallest_gap(option, error, target), tune)


@lru_cache(maxsize=MEMORY)
def _symmetric_head(head: Selection, form: LiteralForm) -> Selection | None:
    cold = symmetric.step_margins(_cold(head), form)
    return _by_margins(head, lambda option: symmetric.step_margins(option, form), cold)


@lru_cache(maxsize=MEMORY)
def _general_head(
    head: Selection, levels: tuple[tuple[int, float], ...], eps: float | None
) -> Selection | None:
    return least_norm(head, lambda option: general.level_gap(option, levels, eps))


def _by_margins(
    head: Selection, margins: Callable[[Selection], np.ndarray], cold: np.ndarray
) -> Selection | None:
    """The least norm at which each margin is at least its `cold` value over `KEPT`."""

    def loss(option: Selection) -> float:
        found = margins(option)
        return np.inf if (found <= 0).any() else float((cold / found).max())

    return least_norm(head, lambda option: smallest_gap(option, loss, KEPT))


def _cold(head: Selection) -> Selection:
    """The same head at temperature zero, without any leakage."""
    cold = threshold_head.COLD
    return Selection("deterministic", head.s, head.s, head.s, a=cold, D=cold)
