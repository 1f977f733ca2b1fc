"""A learning problem given by a file: the user's own examples instead of drawn ones.

    training set    m of the file's training examples, without replacement, by the hash of the
                    file's content, m and the seed
    validation set  the file's own (X_validation, y_validation), or `validation_size` of its
                    examples, the same for every trial and never trained on

The identity of a run depends on the content of the file (`content`, a SHA-256), not on its name or
folder (`data`). The rule behind the labels is unknown, so no set is redrawn and there is no floor.
"""

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from pydantic import Field, model_validator

from capax.boolean.random_functions import random_support
from capax.data.examples import has_validation, read_examples
from capax.data.spec_base import Spec
from capax.data.task import Task, Training
from capax.errors import InputError, inside, require
from capax.identity import key_words
from capax.reading import existing

_HELD_OUT = 4  # if the file has no validation part, every fourth example is kept for it


class FileTask(Spec):
    """m examples of the file `data` with SHA-256 `content`, and `validation_size` for validation.

    `file_task` fills in the fields from the file. Raises `InputError` if m or T do not fit it.
    """

    data: str = Field(default="", exclude=True)
    content: str
    T: int = Field(ge=1)
    m: int = Field(ge=1)
    validation_size: int = Field(ge=1)
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _fits_the_file(self) -> "FileTask":
        if self.data:
            split = self.split
            require(self.T == split.T, "T", f"T = {split.T}, the bits of {self.data}", self.T)
            wanted = f"at most {len(split.y)}, the training examples of {self.data}"
            require(self.m <= len(split.y), "m", wanted, self.m)
        return self

    @property
    def alphabet(self) -> int:
        """Files hold bits."""
        return 2

    @property
    def function(self) -> str:
        """The rule, which is unknown."""
        return ""

    @property
    def split(self) -> "Split":
        """The training examples and the validation examples."""
        return split_of(self.data, self.content, self.validation_size)

    def training(self) -> Training:
        """The training set of this m and seed."""
        split = self.split
        fields = {"content": self.content, "m": self.m, "seed": self.seed}
        rows = list(random_support(len(split.y), self.m, key=key_words(fields, "rows")))
        return Training((), split.X[rows], split.y[rows], 0)

    def pool(self) -> UInt8[np.ndarray, "n T_1"]:
        """The validation inputs, each followed by its label."""
        split = self.split
        return np.concatenate([split.X_validation, split.y_validation[:, None]], axis=1)

    def task(self) -> Task:
        """Training and validation set as plain arrays."""
        own, split = self.training(), self.split
        return Task((), own.X, own.y, split.X_validation, split.y_validation, 0)


class Split:
    """The two parts of a file's examples."""

    def __init__(self, X: Any, y: Any, X_validation: Any, y_validation: Any) -> None:
        self.X, self.y = X, y
        self.X_validation, self.y_validation = X_validation, y_validation
        self.T = X.shape[1]


def content_of(path: Path | str) -> str:
    """SHA-256 of a file. Raises `InputError` when it cannot be read."""
    with inside("data: "):
        file = existing(path, "an .npz file")
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"data: {path} could not be read ({error.strerror})") from None


@functools.lru_cache(maxsize=4)
def split_of(path: str, content: str, held_out: int) -> Split:
    """The parts of the file at `path`; `held_out` examples for validation if it has none itself.

    Raises `InputError` when the file has changed, or has too few examples.
    """
    if content_of(path) != content:
        raise InputError(f"data: {path} has changed; restore it, or start a new store")
    seen = read_examples(path, "train")
    if has_validation(path):
        fresh = read_examples(path, "validation")
        T, other = seen.X.shape[1], fresh.X.shape[1]
        require(other == T, f"{path}: X_validation", f"rows of {T} bits", other)
        return Split(seen.X, seen.y, fresh.X, fresh.y)
    n = len(seen.y)
    require(held_out < n, "validation_size", f"fewer than the {n} examples of {path}", held_out)
    kept = random_support(n, held_out, key=key_words({"content": content}, "held out"))
    fresh = np.zeros(n, bool)
    fresh[list(kept)] = True
    return Split(seen.X[~fresh], seen.y[~fresh], seen.X[fresh], seen.y[fresh])


def described(path: Path | str, validation_size: int | None = None) -> dict[str, Any]:
    """The fields of a file's task except m and seed: data, content, T and validation_size.

    validation_size: for a file without a validation part; a quarter of its examples by default.
    """
    content, seen = content_of(path), read_examples(path, "train")
    if has_validation(path):
        size = len(read_examples(path, "validation").y)
        fits = validation_size in (None, size)
        require(fits, "validation_size", f"{size}, the validation rows of {path}", validation_size)
    else:
        size = max(1, len(seen.y) // _HELD_OUT) if validation_size is None else validation_size
    T = seen.X.shape[1]
    split_of(str(path), content, size)
    return {"data": str(path), "content": content, "T": T, "validation_size": size}
