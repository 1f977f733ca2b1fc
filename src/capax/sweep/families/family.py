"""What a family of learners is: the one place where a sweep meets what it trains.

A family turns a panel's settings into trials and offers a learner for them. It has three methods:

    trial(panel, T, m, index) -> Trial      settings checked, `trial_id` a hash of all that matters
    learner(panel, T) -> Learner            pulls trials while it has room, yields outcomes
    prepare(panel, T)                       work that can be done ahead in another thread, if any

and may have a fourth, `m_range(panel, T)`, where some m can have no training set. A family that
trains step by step, and ends runs as the panel's `whole_curves` and `stop_memorised` say, declares
`trains_in_steps = True`; other families refuse these two settings.

A problem of one trial ends that trial alone: `Outcome(trial, solved=False, runs=(), reason="...")`
keeps the sweep going and the reason in the store. An error that is raised ends the sweep, except
`InfeasibleError`, which ends the panel's work at this T and is noted there.
"""

from typing import Protocol, runtime_checkable

from capax.sweep.experiments.spec import Panel
from capax.sweep.trial import Learner, Trial


@runtime_checkable
class Family(Protocol):
    """What a sweep needs to know about a kind of learner."""

    def trial(self, panel: Panel, T: int, m: int, index: int) -> Trial:
        """The trial number `index` at (T, m). Raises `InputError` for impossible settings."""
        ...

    def learner(self, panel: Panel, T: int) -> Learner:
        """A learner for all trials of this panel at this T."""
        ...

    def prepare(self, panel: Panel, T: int) -> None:
        """Do work in advance, in another thread, such as compilation. May do nothing."""
        ...


@runtime_checkable
class Ranged(Protocol):
    """A family that knows which m make sense. Families without this method accept any m."""

    def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
        """The least and the largest m to ask for at T (`None`: no largest). Must be repeatable."""
        ...


@runtime_checkable
class Stepwise(Protocol):
    """A family that obeys `whole_curves` and `stop_memorised`; other families ignore them."""

    trains_in_steps: bool
