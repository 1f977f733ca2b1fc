"""A rule that ends runs with a small predicted chance, to free their slots for restarts."""

from dataclasses import dataclass

from capax.errors import require
from capax.training.alarm.alarm import Alarm
from capax.training.alarm.features import Series

MOMENTS = tuple(2.0**-k for k in range(6, 0, -1))
"""Shares of a run's limit at which the alarm is evaluated: those it was fitted at. They are few,
because an evaluation takes a third of a millisecond."""


@dataclass(frozen=True)
class GiveUp:
    """Ends a run whose chance of being solved within its limit is below `below`."""

    alarm: Alarm
    below: float

    def __post_init__(self) -> None:
        require(0 < self.below < 1, "give_up_below", "a chance between 0 and 1", self.below)

    def asks(self, step: int, every: int, limit: int) -> bool:
        """Whether the alarm is evaluated at this step: the first look at or after a moment."""
        return any(step - every < share * limit <= step for share in MOMENTS)

    def ends(self, curves: Series, T: int, limit: int) -> bool:
        """Whether the run is ended after its last look."""
        return self.alarm.forecast(curves, T, limit).chance < self.below
