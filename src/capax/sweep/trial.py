"""What passes between a sweep and a learner: trials go in, outcomes come out.

A learner is anything that takes an iterator of trials and yields their outcomes in any order: the
training engine, a simulated learner with a known threshold, another architecture. It pulls the next
trial only when it has room for it; `None` from the iterator means "nothing right now, ask again
after the next result". While it waits for a result, a learner calls `check` of a `Supply` now and
then, which raises `Stopped` once nobody wants the result any more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

OUTCOMES = ("solved", "failed", "diverged")


@dataclass(frozen=True)
class Trial:
    """One trial: `index` tells apart the trials of a panel with the same T and m.

    `trial_id` is the hash of everything that determines the outcome; `spec` is the family's own
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
    """How a trial ended: the best of its restarts, with every run that was made.

    `reason` says why a trial is unsolved where no training decided it: no unambiguous training set
    was found, a user's learner raised an error. Such a trial may have no runs; it counts as a
    failure like any other, and its reason is kept in the store.
    """

    trial: Trial
    solved: bool
    runs: tuple[Run, ...]
    reason: str = ""


@runtime_checkable
class Learner(Protocol):
    """Trains: pulls trials while it has room, yields each outcome as soon as it is known."""

    def __call__(self, trials: Iterator[Trial | None], /) -> Iterator[Outcome]: ...


class Stopped(Exception):
    """Raised in a learner whose work is no longer wanted."""


class Supply:
    """The trials of a job as a learner pulls them, until the job is finished or called off."""

    def __init__(
        self,
        take: Callable[[], Trial | None],
        is_finished: Callable[[], bool],
        should_stop: Callable[[], bool] = lambda: False,
        live: Any = None,
    ) -> None:
        """live: where a learner that trains in steps may write what its runs look like."""
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
        """Raise `Stopped` if the work was called off."""
        if self._should_stop():
            raise Stopped
