"""One fit of a plain learner: data in, answers or a reason out.

`attempt` never raises an error of the learner: an error, NaN or a wrong shape is returned as a
reason. It runs in the calling process; `isolation` runs it in a separate process with limits.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capax.errors import CapaxError
from capax.learners.adapters import Fit, seed_everything
from capax.learners.answers import BadAnswer, labels_of
from capax.learners.references import user_line


@dataclass(frozen=True)
class Attempt:
    """Labels for the validation inputs, one row per snapshot (the last one is final), or a reason.

    `diverged`: the answers held NaN.
    """

    answers: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    reason: str = ""
    diverged: bool = False
    seconds: float = 0.0


def attempt(fit: Fit, X: np.ndarray, y: np.ndarray, inputs: np.ndarray, key: int) -> Attempt:
    """Fit on (X, y) and label `inputs`."""
    began = time.perf_counter()
    seed_everything(key)
    try:
        predict = fit(X.copy(), y.copy(), key=key)
        answers = np.stack([labels_of(row, len(inputs)) for row in _rows(predict, inputs)])
    except BadAnswer as error:
        text = str(error)
        return Attempt(reason=text, diverged=text.startswith("NaN"), seconds=_since(began))
    except KeyboardInterrupt:
        raise
    except CapaxError as error:
        return Attempt(reason=str(error), seconds=_since(began))
    except (
        BaseException
    ) as error:  # SystemExit and MemoryError too: errors of the learner, not of Capax
        return Attempt(reason=user_line(error), seconds=_since(began))
    return Attempt(answers=answers, seconds=_since(began))


def _rows(predict: Any, inputs: np.ndarray) -> list[Any]:
    """The answers of every snapshot, or the one answer."""
    if not callable(predict):
        raise BadAnswer(f"wanted a predictor from fit, got {type(predict).__name__}")
    snapshots: Any = predict
    if hasattr(snapshots, "at") and hasattr(snapshots, "__len__"):
        return [snapshots.at(i, inputs.copy()) for i in range(len(snapshots))]
    return [predict(inputs.copy())]


def _since(began: float) -> float:
    return time.perf_counter() - began
