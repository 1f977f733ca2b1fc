"""The settings that a learner gets besides its data."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Setting:
    """The length and the rule of the task, and the protocol; a learner may ignore them.

    `options`: settings of the learner itself, passed to the class or factory that makes it.
    """

    T: int
    function: str = ""
    rate: float = 1e-3
    steps: int = 1000
    eval_every: int = 100
    options: dict[str, Any] = field(default_factory=dict)
