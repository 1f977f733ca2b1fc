"""The examples a model was trained on, and how they were drawn.

From an .npz file: arrays X and y, or X_train and y_train as `capax data draw` writes them, with
X_validation and y_validation as labelled examples that nobody trained on, and the spec of the task.
A task's spec says whether ambiguous training sets were redrawn; then further sets are drawn to
learn how probable acceptance is, which the certificate has to pay for.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from capax.array_files import load_npz
from capax.boolean.consistent.version_space import is_unique
from capax.data.distributions import bernoulli_rows
from capax.data.task import TaskSpec, draw_task, draw_training, labels
from capax.errors import inside, require
from capax.identity import key_words
from capax.reading import parse_json

ACCEPTANCE_TRIES = 200
NAMES = ("X", "y", "X_train", "y_train", "X_validation", "y_validation", "spec")


@dataclass(frozen=True)
class TrainingData:
    """m training examples; optional hold-out examples; the task they come from, where known."""

    X: UInt8[np.ndarray, "m T"]
    y: UInt8[np.ndarray, " labels"]
    X_holdout: UInt8[np.ndarray, "n columns"] | None = None
    y_holdout: UInt8[np.ndarray, " holdout_labels"] | None = None
    task: TaskSpec | None = None

    def __post_init__(self) -> None:
        _check("X", self.X, self.y)
        if self.X_holdout is not None and self.y_holdout is not None:
            _check("X_validation", self.X_holdout, self.y_holdout)
            same = self.X_holdout.shape[1] == self.X.shape[1]
            require(same, "X_validation", f"{self.X.shape[1]} columns", self.X_holdout.shape)


def from_task(task: TaskSpec) -> TrainingData:
    """The data of a task, drawn again from its spec."""
    drawn = draw_task(task)
    return TrainingData(drawn.X_train, drawn.y_train, drawn.X_validation, drawn.y_validation, task)


def read_training_data(path: Path | str) -> TrainingData:
    """The examples in an .npz file. Raises `InputError` for anything else."""
    arrays = load_npz(path, NAMES)
    names = ("X_train", "y_train") if "X_train" in arrays else ("X", "y")
    for name in names:
        require(name in arrays, str(path), f"an array {name}", ", ".join(sorted(arrays)) or "none")
    X, y = (_bits(name, arrays[name]) for name in names)
    holdout = [
        _bits(n, arrays[n]) if n in arrays else None for n in ("X_validation", "y_validation")
    ]
    return TrainingData(X, y, *holdout, task=_task(path, arrays.get("spec")))


def acceptance(task: TaskSpec, tries: int = ACCEPTANCE_TRIES) -> tuple[int, int]:
    """(accepted, tries) of training sets drawn as the task draws them, the task's own included.

    The support does not change the chance: bits are exchangeable.
    """
    f, key = task.target, key_words(task.model_dump(mode="json"), "acceptance")
    accepted, drawn = 1, draw_training(task).rejections + 1
    for stream in range(tries):
        X = bernoulli_rows(task.m, task.T, task.probability, key=key, stream=stream)
        accepted, drawn = accepted + is_unique(f, X, labels(f, X)), drawn + 1
    return accepted, drawn


def _task(path: Path | str, text: np.ndarray | None) -> TaskSpec | None:
    if text is None:
        return None
    with inside(f"{path}: spec: "):
        fields = parse_json(str(text), "JSON")
        require(isinstance(fields, dict), "JSON", "an object", fields)
        return TaskSpec(**fields)


def _bits(name: str, array: np.ndarray) -> np.ndarray:
    fits = array.dtype.kind in "biuf" and bool(np.isin(array, (0, 1)).all())
    require(fits, name, "zeros and ones", f"{array.dtype} {array.shape}")
    return array.astype(np.uint8)


def _check(name: str, X: np.ndarray, y: np.ndarray) -> None:
    require(X.ndim == 2 and len(X) > 0, name, "a matrix of bits, one row per example", X.shape)
    require(y.shape == (len(X),), f"labels of {name}", f"{len(X)} labels", y.shape)
