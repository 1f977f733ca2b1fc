"""The interface between a sweep and a learner: trials in, outcomes out.

A learner takes an iterator of trials and yields their outcomes in any order: the training engine, a
simulated learner with a known threshold, another architecture. It pulls the next trial only when it
can start it; `None` from the iterator means that there is no trial before the next result. While it
waits for a result, a learner calls `check` of a `Supply` regularly, which raises `Stopped` when the
result is no longer needed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

OUTCOMES = ("solved", "failed", "diverged")


@dataclass(frozen=True)
class Trial:
    """One trial: `index` is its number among the trials of a panel with the same T and m.

    `trial_id` is the hash of all settings that determine the outcome; `spec` is the family's own
    description of the work.
    """

    panel: str
    T: int
    m: int
    index: int
    trial_id: str
    spec: Any


@dataclass(frozen=True)
class Run:
    """One training run: `curves` are equal-length series over the evaluated steps."""

    run_id: str
    restart: int
    outcome: str
    solved_step: int | None
    steps: int
    seconds: float
    spec: dict[str, Any]
    curves: dict[str, list[float]] = field(default_factory=dict)
    path: str = ""
    reason: str = ""
    parameters: bytes | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial: the best of its restarts, with every run.

    `reason`: why a trial is unsolved for another reason than training: no unambiguous training set
    was found, or a user's learner raised an error. Such a trial may have no runs; it counts as a
    failure, and its reason is kept in the store.
    """

    trial: Trial
    solved: bool
    runs: tuple[Run, ...]
    reason: str = ""


@runtime_checkable
class Learner(Protocol):
    """Pulls trials while it can start them, yields each outcome as soon as it is known."""

    def __call__(self, trials: Iterator[Trial | None], /) -> Iterator[Outcome]: ...


class Stopped(Exception):
    """Raised in a learner whose work is no longer needed."""


class Supply:
    """The trials of a job as a learner pulls them, until the job is finished or cancelled."""

    def __init__(
        self,
        take: Callable[[], Trial | None],
        is_finished: Callable[[], bool],
        should_stop: Callable[[], bool] = lambda: False,
        live: Any = None,
    ) -> None:
        """live: a file for evaluations of current runs of a learner that trains in steps."""
        self._take, self._is_finished, self._should_stop = take, is_finished, should_stop
        self.live = live

    def __iter__(self) -> "Supply":
        return self

    def __next__(self) -> Trial | None:
        if self._is_finished():
            raise StopIteration
        self.check()
        return self._take()

    def check(self) -> None:
        """Raise `Stopped` if the work was cancelled."""
        if self._should_stop():
            raise Stopped
