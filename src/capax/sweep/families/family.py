"""A family of learners: the interface between a sweep and its learners.

A family makes trials from a panel's settings and a learner for them. It has three methods:
    trial(panel, T, m, index) -> Trial      settings checked, `trial_id` a hash of all settings
    learner(panel, T) -> Learner            pulls trials while it has room, yields outcomes
    prepare(panel, T)                       work that can be done ahead in another thread, if any

and may have a fourth, `m_range(panel, T)`, if some m have no training set. A family that trains
step by step, and obeys the panel's `whole_curves` and `stop_memorised`, declares
`trains_in_steps = True`; other families refuse these two settings.

A problem of one trial ends that trial alone: `Outcome(trial, solved=False, runs=(), reason="...")`
continues the sweep and stores the reason. An error that is raised ends the sweep, except
`InfeasibleError`, which ends the panel's work at this T and is stored as its note.
"""

from typing import Protocol, runtime_checkable

from capax.sweep.experiments.spec import Panel
from capax.sweep.trial import Learner, Trial


@runtime_checkable
class Family(Protocol):
    """The methods of a kind of learner that a sweep uses."""

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
    """A family with a range of useful m. Families without this method accept any m."""

    def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
        """The least and the largest useful m at T (`None`: no largest). Must be deterministic."""
        ...


@runtime_checkable
class Stepwise(Protocol):
    """A family that obeys `whole_curves` and `stop_memorised`; other families ignore them."""

    trains_in_steps: bool
