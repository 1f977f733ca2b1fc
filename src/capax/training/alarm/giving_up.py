"""A rule that ends runs which an alarm holds for lost: their slots serve other restarts."""

from dataclasses import dataclass

from capax.errors import require
from capax.training.alarm.alarm import Alarm
from capax.training.alarm.features import Series

MOMENTS = tuple(2.0**-k for k in range(6, 0, -1))
"""Shares of a run's limit at which an alarm is asked: where it was fitted, and seldom, since to ask
costs a third of a millisecond."""


@dataclass(frozen=True)
class GiveUp:
    """Ends a run whose chance of being solved within its limit is below `below`."""

    alarm: Alarm
    below: float

    def __post_init__(self) -> None:
        require(0 < self.below < 1, "give_up_below", "a chance between 0 and 1", self.below)

    def asks(self, step: int, every: int, limit: int) -> bool:
        """Whether the alarm is asked at this step: the first look at or after a moment."""
        return any(step - every < share * limit <= step for share in MOMENTS)

    def ends(self, curves: Series, T: int, limit: int) -> bool:
        """Whether the run is given up at its last look."""
        return self.alarm.forecast(curves, T, limit).chance < self.below
