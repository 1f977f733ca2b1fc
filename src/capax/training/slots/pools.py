"""The validation sets of a call of `train`: one for every p, numbered as they appear."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np

from capax.data.file_task import FileTask
from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.training.programs.seeds import pool_for


class Pools(Sequence[np.ndarray]):
    """Validation sets, each drawn in the background from the moment its p appears."""

    def __init__(self, in_background: Callable[..., Future]) -> None:
        self._in_background = in_background
        self._numbers: dict[float | None, int] = {}
        self._drawn: list[Future] = []

    def number_of(self, task: TaskSpec | FileTask, most: int) -> int:
        """The number of a task's validation set; there are at most `most`."""
        p = None if isinstance(task, FileTask) else task.probability
        if p not in self._numbers:
            if len(self._numbers) == most:
                known = ", ".join(map(str, self._numbers))
                raise InputError(f"trials: wanted at most {most} values of p ({known}), got {p}")
            self._drawn.append(self._in_background(pool_for, task))
            self._numbers[p] = len(self._numbers)
        return self._numbers[p]

    def __len__(self) -> int:
        return len(self._drawn)

    def __getitem__(self, number: int) -> np.ndarray:  # type: ignore[override]
        return self._drawn[number].result()
