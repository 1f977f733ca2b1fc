"""The input on which a head is largest: a witness for one end of its range, in float64."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Integer

from capax.compiler.proof.tables import HeadTables

MAX_STEPS = 100


def extreme_input(
    tables: HeadTables,
    support: Sequence[int],
    pattern: Sequence[int] | Integer[np.ndarray, " s"],
    direction: Float[np.ndarray, " k"],
    *,
    largest: bool = True,
) -> tuple[Integer[np.ndarray, " T"], float]:
    """An input with this pattern on which c . u is largest (or smallest), and its float64 value.

    Dinkelbach's iteration from an actual input: every step is an actual input, the best is kept.
    If one weight is far larger than the rest, the value stays at its token, since the next one
    differs by less than the resolution of float64: then lambda is raised by growing steps.
    """
    sign = 1.0 if largest else -1.0
    values = sign * (tables.values.mid @ np.asarray(direction, np.float64))
    cls_value = sign * float(tables.cls_value.mid @ np.asarray(direction, np.float64))
    at, spread = np.arange(tables.T), float(np.ptp(values)) + 1e-300

    def value_of(bits: np.ndarray) -> float:
        bits[list(support)] = pattern
        scores = np.append(tables.logits.mid[at, bits], tables.cls_logit.mid)
        weight = np.exp(scores - scores.max())
        return float(weight @ np.append(values[at, bits], cls_value) / weight.sum())

    best = np.argmax(values, axis=1)
    reached, raised = value_of(best), 0.0
    for _ in range(MAX_STEPS):
        bits = _better_symbols(tables.logits.mid, values - (reached + raised))
        value = value_of(bits)
        if value > reached:
            best, reached, raised = bits, value, 0.0
        elif raised < spread:
            raised = max(8 * raised, 2.0**-52 * max(abs(reached), spread))
        else:
            break
    return best, sign * reached


def _better_symbols(logits: np.ndarray, distance: np.ndarray) -> Integer[np.ndarray, " T"]:
    """The symbol with the largest w_b distance_b, compared by logarithm where the signs agree."""
    with np.errstate(divide="ignore"):
        power = logits + np.log(np.abs(distance))
    ahead = np.where(distance > 0, power, -np.inf)
    behind = np.where(distance > 0, np.inf, power)
    positive = (distance > 0).any(axis=1)
    return np.where(positive, ahead.argmax(axis=1), behind.argmin(axis=1))
