"""Results of training: the record of a run, and of a trial."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from capax.training.specs.trial_specs import RunSpec, TrialSpec

Outcome = Literal["solved", "failed", "diverged"]
COLUMNS = (
    "step",
    "loss",
    "train_accuracy",
    "validation_accuracy",
    "validation_rows",
    "attention_mass",
)


@dataclass(frozen=True)
class RunResult:
    """One run: its outcome and the table of its evaluations.

    `evals`: equally long arrays step, loss, train_accuracy, validation_accuracy (of the first
    `validation_rows` rows of the validation set: all of them when the first ones are right) and
    attention_mass (share of the attention on the support, mean over heads and examples; of
    Transformers only). `path`: collapsed (one layer), pairwise (several), naive (with the
    `reason`) or module (another architecture). `seconds` is wall time in a slot, which it shared
    with its neighbours.
    `parameters`: a `Transformer`, or the pytree of another architecture.
    """

    run_id: str
    spec: RunSpec
    outcome: Outcome
    solved_step: int | None
    steps: int
    evals: dict[str, np.ndarray]
    seconds: float
    path: Literal["collapsed", "pairwise", "naive", "module"]
    reason: str | None
    parameters: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class TrialResult:
    """A trial. It is solved if one of its runs is solved; then no further run is started.

    Without runs it is unsolved for a `reason`: no unambiguous training set was found.
    """

    trial_id: str
    spec: TrialSpec
    solved: bool
    runs: tuple[RunResult, ...]
    reason: str = ""
