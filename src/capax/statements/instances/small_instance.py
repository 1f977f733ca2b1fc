"""The result of a check: whether a statement holds on a small instance, and the instance."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SmallInstance:
    """`holds` on the instance that `text` describes, with the numbers that were compared."""

    holds: bool
    text: str


def compared(left: float, right: float, text: str) -> SmallInstance:
    """left <= right up to float64 rounding, with both numbers in the text."""
    holds = left <= right + 1e-12 * max(1.0, abs(right))
    return SmallInstance(holds, f"{text}: {left:.6g} <= {right:.6g}")
