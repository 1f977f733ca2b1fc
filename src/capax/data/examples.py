"""Labelled examples: from a file, or drawn from a task.

A task file (`capax data --out d.npz`) holds two sets: the training set (labels with the task's
noise, possibly accepted only after others were rejected) and the validation set (clean labels,
never rejected). The caller names the set; a plain file with X and y serves as either.

Training runs stop, and restarts are chosen, by the validation set: it is not a hold-out set of a
trained model. If the task is known, `fresh_examples` draws rows that no run has used.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt8

from capax.array_files import load_npz
from capax.data.distributions import bernoulli_rows, input_rows
from capax.data.task import TaskSpec, draw_training, labels
from capax.errors import InputError, inside, require
from capax.identity import key_words
from capax.reading import parse_json

Part = Literal["train", "validation"]
HELD_OUT = 10_000
"""Fresh labelled rows that are drawn from a task by default."""


@dataclass(frozen=True)
class Examples:
    """Bits X [m, T], labels y [m], and how they were drawn, if known.

    task: the specification of the draw. tries: training sets drawn until this one was accepted;
    None if no set was rejected, or the number is unknown.
    """

    X: UInt8[np.ndarray, "m T"]
    y: UInt8[np.ndarray, " labels"]
    task: TaskSpec | None = None
    tries: int | None = None

    def __post_init__(self) -> None:
        require(self.X.ndim == 2, "X", "a matrix [m, T]", f"shape {self.X.shape}")
        require(self.y.shape == self.X.shape[:1], "y", f"{len(self.X)} labels", self.y.shape)
        require(self.X.size > 0, "X", "at least one example", f"shape {self.X.shape}")


def read_examples(path: Path | str, part: Part) -> Examples:
    """The training or the validation part of an .npz file, checked.

    Raises `InputError` for a file that is missing or damaged, arrays of the wrong shape, entries
    that are not bits, or no examples at all. No content of the file is executed (no pickle).
    """
    own = (f"X_{part}", f"y_{part}")
    arrays = load_npz(path, (*own, "X", "y", "rejections", "spec"))
    X, y = (arrays.get(name) for name in (own if own[0] in arrays else ("X", "y")))
    wanted = f"arrays X and y, or X_{part} and y_{part}"
    if X is None or y is None:
        raise InputError(f"{path}: wanted {wanted}, got {', '.join(arrays) or 'neither'}")
    with inside(f"{path}: "):
        X, y = (_bits(name, array) for name, array in (("X", X), ("y", y)))
        task = _task(arrays) if own[0] in arrays else None
        if task is not None:
            size = task.m if part == "train" else X.size // task.T
            wanted = f"{size} rows of {task.T} bits, as in its spec"
            require(X.shape == (size, task.T), own[0], wanted, f"shape {X.shape}")
        tries = _tries(task, arrays) if part == "train" else None
        return Examples(X, y, task, tries)


def training_examples(task: TaskSpec) -> Examples:
    """The training set of a task, drawn again from its specification."""
    drawn = draw_training(task)
    tries = drawn.rejections + 1 if task.reject_ambiguous else None
    return Examples(drawn.X, drawn.y, task, tries)


def fresh_examples(task: TaskSpec, n: int = HELD_OUT) -> Examples:
    """n new rows of the task, labels with its noise, used by no run and no validation."""
    fields = task.model_dump(mode="json")
    key = key_words(fields, "hold-out inputs")
    X = input_rows(n, task.T, task.probability, task.alphabet, key=key)
    y = labels(task.target, X)
    if task.noise:
        y ^= bernoulli_rows(n, 1, task.noise, key=key_words(fields, "hold-out noise"))[:, 0]
    return Examples(X, y, task)


def has_validation(path: Path | str) -> bool:
    """Whether a readable file has a validation part of its own."""
    return "X_validation" in load_npz(path, ("X_validation",))


def _bits(name: str, array: np.ndarray) -> UInt8[np.ndarray, "..."]:
    fits = array.dtype.kind in "buif" and bool(np.isin(array, (0, 1)).all())
    require(fits, name, "bits 0 and 1", "other values")
    return array.astype(np.uint8)


def _task(arrays: dict[str, np.ndarray]) -> TaskSpec | None:
    """The task in a file; None in a file of a user's own examples."""
    if "spec" not in arrays:
        return None
    with inside("spec: "):
        fields = parse_json(str(arrays["spec"]), "JSON")
        require(isinstance(fields, dict), "JSON", "an object", fields)
        return None if "content" in fields else TaskSpec(**fields)


def _tries(task: TaskSpec | None, arrays: dict[str, np.ndarray]) -> int | None:
    if task is None or not task.reject_ambiguous:
        return None
    if "rejections" not in arrays:
        return draw_training(task).rejections + 1
    count = arrays["rejections"]
    whole = count.shape == () and count.dtype.kind in "iu" and bool(count >= 0)
    require(whole, "rejections", "an integer >= 0", count)
    return int(count) + 1
