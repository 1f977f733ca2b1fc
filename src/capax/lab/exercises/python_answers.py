"""Answers as programs: `answer(x)` of a Python file, asked about all 2^T inputs.

The file is never run in this process: a workshop of the learners loads it, with their limits on
time and memory, and can be killed (`capax.learners.isolation`). Every input is asked twice, in
another order, so that a program that answers at random is noticed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from capax.boolean.functions import all_patterns
from capax.errors import InputError
from capax.learners.references import load

SECONDS = 60.0
MEMORY = 2**30


def answers_of(path: Path, T: int, *, seconds: float = SECONDS) -> np.ndarray:
    """The answers to `all_patterns(T)`. Raises `InputError` with the program's own line."""
    from capax.learners.isolation import Isolated
    from capax.learners.setting import Setting

    every = all_patterns(T).astype(np.uint8)
    twice = np.concatenate([every, every[::-1]])
    setting = Setting(T, options={"path": str(path.resolve())})
    nothing = np.zeros((1, T), np.uint8)  # a learner would be fitted to it
    with Isolated(f"{__name__}:loaded", seconds=seconds, memory_bytes=MEMORY) as workshop:
        found = workshop.attempt(setting, nothing, nothing[:, 0], twice, key=0)
    if found.reason:
        raise InputError(f"answer: {found.reason.removeprefix('learner: ')}")
    first, second = found.answers[-1, : len(every)], found.answers[-1, len(every) :]
    other = int((first != second[::-1]).sum())
    if other:
        wanted = "the same answer to the same input"
        raise InputError(f"answer: wanted {wanted}, got another one to {other} of {len(every)}")
    return first


def loaded(X: np.ndarray, y: np.ndarray, *, path: str) -> Callable[[np.ndarray], Any]:
    """In the workshop: the function `answer` of the file, for rows of inputs."""
    del X, y
    answer = load(f"{path}:answer")
    return lambda inputs: [answer([int(bit) for bit in row]) for row in inputs]
