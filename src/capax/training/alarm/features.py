"""The features of a run for an alarm: a few numbers per look (a look is one evaluation of a run).

They use this look and earlier ones only. Where possible they have no unit (ratios, logarithms of
ratios), so that they mean the same at another T. A measure is averaged over the last fifth of the
looks so far, because most measures are samples; a trend is its change since half of the looks so
far. The kind of an alarm says which measures it may use:

    loss       the loss and the accuracy on held-out inputs
    blind      also every measure that does not use the support: available in practice
    knowing    also the measures that use the support

All kinds use the step and T.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from capax.errors import InputError, require

Kind = Literal["loss", "blind", "knowing"]
KINDS: tuple[Kind, ...] = ("loss", "blind", "knowing")
_CONTEXT = ("log_step", "log_T")
_LOSS = ("loss_gap", "accuracy_gap", "loss_trend")
_BLIND = ("position_gap", "position_trend", "influence_gap", "degree", "movement", "rank",
          "entropy", "attention_gap", "spread")  # fmt: skip
_KNOWING = ("relevant_gap", "influence_share", "coefficient", "mass")
FEATURES: dict[Kind, tuple[str, ...]] = {
    "loss": _CONTEXT + _LOSS,
    "blind": _CONTEXT + _LOSS + _BLIND,
    "knowing": _CONTEXT + _LOSS + _BLIND + _KNOWING,
}
NEEDED: dict[Kind, tuple[str, ...]] = {
    "loss": ("step", "loss", "validation_accuracy"),
    "blind": ("weight_movement", "variance", "sensitivity", "influence_peak", "position_largest",
              "position_typical", "stable_rank", "attention_entropy", "attention_peak"),
    "knowing": ("position_relevant", "position_irrelevant", "influence_share",
                "target_coefficient", "target_error", "attention_mass"),
}  # fmt: skip
"""The series of a run that a kind reads, in addition to those of the kinds before it."""

Series = Mapping[str, Sequence[float] | Float[ndarray, " n"]]


def has_series(curves: Series, kind: Kind) -> bool:
    """Whether a run has recorded all series of an alarm of this kind."""
    return not _missing(curves, kind)


def _missing(curves: Series, kind: Kind) -> list[str]:
    kinds = KINDS[: KINDS.index(kind) + 1]
    return [name for one in kinds for name in NEEDED[one] if name not in curves]


def features(curves: Series, T: int, kind: Kind) -> Float[ndarray, "n k"]:
    """The features of every look of a run, in the order of `FEATURES[kind]`.

    Raises `InputError` for a run without the series that this kind reads.
    """
    require(kind in KINDS, "kind", f"one of {', '.join(KINDS)}", kind)
    missing = _missing(curves, kind)
    if missing:
        raise InputError(f"curves: a {kind} alarm needs {missing[0]}, which was not recorded")
    series = {name: np.asarray(values, float) for name, values in curves.items()}
    found = _context(series, T) | _loss(series)
    if kind != "loss":
        found |= _blind(series, T)
    if kind == "knowing":
        found |= _knowing(series, T)
    rows = np.stack([found[name] for name in FEATURES[kind]], axis=1)
    return np.nan_to_num(rows, nan=0.0, posinf=20.0, neginf=-20.0)


def _context(x: dict[str, ndarray], T: int) -> dict[str, ndarray]:
    return {"log_step": np.log(x["step"]), "log_T": np.full(len(x["step"]), math.log(T))}


def _loss(x: dict[str, ndarray]) -> dict[str, ndarray]:
    """The distance below the highest level so far, on a scale that shows small differences."""
    level = recent(x["loss"])
    gap = np.arcsinh((np.maximum.accumulate(level) - level) / 0.005)
    accuracy = np.arcsinh((recent(x["validation_accuracy"]) - 0.5) / 0.01)
    return {"loss_gap": gap, "accuracy_gap": accuracy, "loss_trend": trend(gap)}


def _blind(x: dict[str, ndarray], T: int) -> dict[str, ndarray]:
    gap = recent(_log(x["position_largest"]) - _log(x["position_typical"]))
    return {
        "position_gap": gap,
        "position_trend": trend(gap),
        "influence_gap": recent(_log(x["influence_peak"] * T)),
        "degree": recent(_log(x["sensitivity"]) - _log(x["variance"])),
        "movement": recent(_log(x["weight_movement"])),
        "rank": recent(_log(x["stable_rank"])),
        "entropy": recent(_log(1.0 - x["attention_entropy"])),
        "attention_gap": recent(_log(x["attention_peak"] * T)),
        "spread": recent(_log(x["variance"])),
    }


def _knowing(x: dict[str, ndarray], T: int) -> dict[str, ndarray]:
    share = np.clip(x["influence_share"], 1e-6, 1 - 1e-6)
    noise = np.maximum(x["target_error"], 1e-12)
    return {
        "relevant_gap": recent(_log(x["position_relevant"]) - _log(x["position_irrelevant"])),
        "influence_share": recent(np.log(share / (1 - share)) + math.log(T)),
        "coefficient": np.arcsinh(recent(x["target_coefficient"] / noise)),
        "mass": recent(_log(x["attention_mass"] * T)),
    }


def recent(values: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Mean over the last fifth of the looks so far (at least one)."""
    looks = np.arange(1, len(values) + 1)
    window = -(-looks // 5)
    total = np.concatenate([[0.0], np.cumsum(values)])
    return (total[looks] - total[looks - window]) / window


def trend(values: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Change since half of the looks so far."""
    looks = np.arange(1, len(values) + 1)
    return values - values[-(-looks // 2) - 1]


def _log(values: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return np.log(np.maximum(values, 1e-12))
