"""Answers as programs: `answer(x)` of a Python file, run on all 2^T inputs.

The file never runs in this process: an isolated process of the learners loads it, with their limits
on time and memory, and can be killed (`capax.learners.isolation`). Every input is tried twice, in
different orders, to detect a program that answers at random.
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
    """The answers to `all_patterns(T)`. Raises `InputError` that names the line in the program."""
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
        raise InputError(f"answer: {other} of {len(every)} inputs got two different answers")
    return first


def loaded(X: np.ndarray, y: np.ndarray, *, path: str) -> Callable[[np.ndarray], Any]:
    """In the isolated process: the function `answer` of the file, for rows of inputs."""
    del X, y
    answer = load(f"{path}:answer")
    return lambda inputs: [answer([int(bit) for bit in row]) for row in inputs]
