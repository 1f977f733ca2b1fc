"""A trial of a learner that is fitted: its identity, its fits, and its outcome."""

from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import Field

from capax.data.file_task import FileTask
from capax.data.spec_base import Spec
from capax.data.task import Task, TaskSpec, draw_task
from capax.errors import CapaxError, InputError
from capax.identity import digest, key_words
from capax.learners.adapters import fit_of
from capax.learners.fitting import Attempt, attempt
from capax.learners.names import Entry
from capax.learners.setting import Setting
from capax.learners.time_limit import time_limit
from capax.sweep.trial import Outcome, Run, Trial

Attempter = Callable[[Setting, np.ndarray, np.ndarray, np.ndarray, int], Attempt]


class PlainTrial(Spec):
    """Everything that determines the outcome of a plain learner's trial."""

    learner: str
    source: str
    options: dict[str, Any]
    task: TaskSpec | FileTask
    lr: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    steps: int = Field(default=1000, ge=1)
    eval_every: int = Field(default=100, ge=1)
    restarts: int = Field(default=1, ge=1)
    time_limit: float = Field(default=60.0, gt=0, allow_inf_nan=False)

    @property
    def trial_id(self) -> str:
        return digest(self.model_dump(mode="json"))

    def run_fields(self, restart: int) -> dict[str, Any]:
        """All settings that determine one run."""
        return {**self.model_dump(mode="json", exclude={"restarts"}), "restart": restart}

    def setting(self) -> Setting:
        """The settings that are passed to the learner."""
        task = self.task
        rates = {"rate": self.lr, "steps": self.steps, "eval_every": self.eval_every}
        return Setting(T=task.T, function=task.function, options=self.options, **rates)


def outcome_of(trial: Trial, fitted: Attempter, made: list[Attempt] | None = None) -> Outcome:
    """Restarts until one is solved: the same data, another key. `made`: collects the fits."""
    fits = [] if made is None else made
    spec: PlainTrial = trial.spec
    try:
        task = _data(spec.task)
    except CapaxError as error:
        return Outcome(trial, False, (_run(spec, 0, Attempt(reason=str(error)), []),))
    runs = []
    for restart in range(spec.restarts):
        key = key_words(spec.run_fields(restart), "fit")[0]
        fits.append(fitted(spec.setting(), task.X_train, task.y_train, task.X_validation, key))
        right = [float(np.mean(row == (task.y_validation > 0))) for row in fits[-1].answers]
        runs.append(_run(spec, restart, fits[-1], right))
        if runs[-1].outcome == "solved":
            break
    return Outcome(trial, runs[-1].outcome == "solved", tuple(runs))


def _data(task: TaskSpec | FileTask) -> Task:
    return task.task() if isinstance(task, FileTask) else draw_task(task)


def _run(spec: PlainTrial, restart: int, made: Attempt, right: list[float]) -> Run:
    fields = spec.run_fields(restart)
    steps = [float(spec.eval_every * (i + 1)) for i in range(len(right))]
    solved = 1.0 in right
    rows = [float(spec.task.validation_size)] * len(right)
    return Run(
        run_id=digest(fields),
        restart=restart,
        outcome="solved" if solved else "diverged" if made.diverged else "failed",
        solved_step=int(steps[right.index(1.0)]) if solved else None,
        steps=int(steps[-1]) if steps else 0,
        seconds=made.seconds,
        spec=fields,
        curves={"step": steps, "validation_accuracy": right, "validation_rows": rows},
        path="plain",
        reason=made.reason,
    )


def fit_here(
    entry: Entry,
    seconds: float,
    check: Callable[[], None],
    setting: Setting,
    X: np.ndarray,
    y: np.ndarray,
    inputs: np.ndarray,
    key: int,
) -> Attempt:
    """A fit in this process, for learners that exist only here."""
    with time_limit(seconds, check):
        return attempt(fit_of(entry.thing, setting), X, y, inputs, key)


def first_fit(trial: Trial, fitted: Attempter) -> Attempt:
    """Repeat the first fit of a trial."""
    spec: PlainTrial = trial.spec
    task, key = _data(spec.task), key_words(spec.run_fields(0), "fit")[0]
    return fitted(spec.setting(), task.X_train, task.y_train, task.X_validation, key)


def compare(trial: Trial, one: Attempt, two: Attempt) -> None:
    """Raises `InputError` when two fits with the same data and key answer differently."""
    if one.reason or two.reason or np.array_equal(one.answers, two.answers):
        return
    differ = int((one.answers[-1] != two.answers[-1]).sum())
    raise InputError(
        f"learner: {trial.spec.learner} is not deterministic: two fits with the same data and key "
        f"differ on {differ} of {one.answers.shape[-1]} answers; use `key`, or set "
        "deterministic = false"
    )
