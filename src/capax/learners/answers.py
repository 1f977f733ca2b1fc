"""Valid answers of a learner, and their labels.

The rule. An answer is one value per input:
- labels 0 and 1, of any type (bool, int, float);
- or probabilities of label 1, floats in [0, 1]: label 1 where they are above 1/2;
- or two columns [n, 2], as `predict_proba` gives them: the second one is used;
- a last axis of length 1 is dropped.
All other values (NaN, another shape, values outside [0, 1] such as logits or -1/+1) are not valid:
the trial fails with the reason.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray


class BadAnswer(Exception):
    """Not a valid answer; the message names the wanted values and the given ones."""


def labels_of(answer: Any, n: int) -> Bool[ndarray, " n"]:
    """The answer as n labels, by the rule above. Raises `BadAnswer`."""
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadAnswer(f"wanted {n} labels, got {type(answer).__name__}") from None
    if values.ndim == 2 and values.shape[1] == 2:
        values = values[:, 1]
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n,):
        raise BadAnswer(f"wanted {n} labels, got an array of shape {np.shape(answer)}")
    missing = int(np.isnan(values).sum())
    if missing:
        raise BadAnswer(f"NaN in {missing} of {n} answers")
    if n and not (values.min() >= 0 and values.max() <= 1):
        low, high = values.min(), values.max()
        raise BadAnswer(
            f"wanted labels 0 and 1 or probabilities in [0, 1], got values from {low:.4g} to "
            f"{high:.4g}"
        )
    return values > 0.5


def accuracy_of(answer: Any, y: Float[ndarray, " n"] | ndarray) -> float:
    """Share of right labels. Raises `BadAnswer`."""
    return float(np.mean(labels_of(answer, len(y)) == (np.asarray(y) > 0.5)))
