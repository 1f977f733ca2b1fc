"""A run in a slot: its evaluations, its outcome, its parameters on request."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from capax.data.file_task import FileTask
from capax.training.alarm.giving_up import GiveUp
from capax.training.specs.progress_names import NAMES, recorded
from capax.training.specs.run_results import COLUMNS, Outcome, RunResult
from capax.training.specs.trial_specs import RunSpec
from capax.training.steps.paths import Path

# The criterion of a run that has memorised its sample and found no rule. Chosen on the recorded
# curves of 3798 runs (T = 10 to 100 000), 1072 of them solved, then tested on 4853 others of the
# paper's protocol, 1301 of them solved: it would have ended no run before it was solved, and 39 %
# to 63 % of all steps came after it held (`benchmarks/memorised.py`). Not with dropout: of 4288
# solved runs of the published protocol 1134 had memorised before they found the rule.
MEMORISED_LOSS, NO_RULE = 0.02, 0.85


def has_memorised(loss: float, validation: float) -> bool:
    """Low loss on the training set, and low accuracy on the validation set."""
    return bool(loss < MEMORISED_LOSS and validation < NO_RULE)


class Leaving(NamedTuple):
    """The rules by which runs leave before their last step."""

    solved: bool = True
    memorised: bool = False
    hopeless: GiveUp | None = None


@dataclass
class Record:
    """Grows by one row per evaluation until the run is over."""

    spec: RunSpec
    began: float = field(default_factory=time.perf_counter)
    rows: list[tuple[float, ...]] = field(default_factory=list)
    solved_step: int | None = None
    best: tuple[float, Any] = (-1.0, None)

    @property
    def step(self) -> int:
        """Steps trained so far."""
        return len(self.rows) * self.spec.eval_every

    def add(
        self,
        loss: float,
        train: float,
        validation: float,
        validation_rows: int,
        mass: float,
        progress: Sequence[float] = (),
    ) -> None:
        """One evaluation; a run is solved by its rule, on the whole validation set.

        progress: all measures of hidden progress, or None.
        """
        step, rule = self.step + self.spec.eval_every, self.spec.success
        self.rows.append((step, loss, train, validation, validation_rows, mass, *progress))
        counts = rule.when == "best" or step >= self.spec.steps
        whole = validation_rows == self.spec.task.validation_size
        if self.solved_step is None and counts and whole and rule.is_met(validation):
            self.solved_step = step

    @property
    def diverged(self) -> bool:
        """The last loss is not a number, or infinite."""
        return bool(self.rows) and not math.isfinite(self.rows[-1][1])

    def over(self, leaving: Leaving) -> bool:
        """Whether the run leaves its slot."""
        solved = self.solved_step is not None and leaving.solved
        _, loss, _, validation, *_ = self.rows[-1]
        lost = leaving.memorised and has_memorised(loss, validation)
        if solved or lost or self.diverged or self.step >= self.spec.steps:
            return True
        return leaving.hopeless is not None and self._is_hopeless(leaving.hopeless)

    def _is_hopeless(self, rule: GiveUp) -> bool:
        """Whether an alarm predicts that the run fails; it is evaluated at a few steps."""
        limit = self.spec.steps
        if not rule.asks(self.step, self.spec.eval_every, limit):
            return False
        columns = np.array(self.rows, np.float64).T
        series = dict(zip((*COLUMNS, *NAMES), columns, strict=True))
        return rule.ends(series, self.spec.task.T, limit)

    def improved(self) -> bool:
        """Whether the last evaluation is the best so far (validation accuracy, first come)."""
        return self.rows[-1][3] > self.best[0]

    def result(self, path: Path, parameters: Any) -> RunResult:
        """The finished record."""
        outcome: Outcome = "diverged" if self.diverged else "failed"
        if self.solved_step is not None:
            outcome = "solved"
        return RunResult(
            run_id=self.spec.run_id,
            spec=self.spec,
            outcome=outcome,
            solved_step=self.solved_step,
            steps=self.step,
            evals=self._series(path),
            seconds=time.perf_counter() - self.began,
            path=path.name,
            reason=path.reason,
            parameters=parameters,
        )

    def _series(self, path: Path) -> dict[str, np.ndarray]:
        """The rows by name, without series that the model or the task does not have."""
        columns = np.array(self.rows, np.float64).T
        evals = dict(zip((*COLUMNS, *NAMES), columns, strict=False))
        for name in ("step", "validation_rows"):
            evals[name] = evals[name].astype(np.int64)
        attention, known = path.name != "module", not isinstance(self.spec.task, FileTask)
        if not (attention and known):  # no support is known
            del evals["attention_mass"]
        missing = set(NAMES) - set(recorded(attention, known))
        return {name: column for name, column in evals.items() if name not in missing}
