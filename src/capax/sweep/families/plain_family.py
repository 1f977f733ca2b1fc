"""Learners that are fitted (scikit-learn, PyTorch, the user's function), in separate processes.

The tables of an experiment with such a learner are

    [model]      family = "tree" or "mine.py:build", and settings of the learner itself
    [task]       as for every learner, without T, m and seed
    [training]   restarts, time_limit (seconds per fit), memory_gb, deterministic, and steps and
                 eval_every for PyTorch modules;  [optimiser] lr, for them too

A trial is solved when one of its restarts labels the whole validation set right. A fit that raises
an error, exceeds a limit or gives invalid answers is a failed run with the reason; the sweep
continues.
"""

from collections.abc import Iterator
from functools import partial

from pydantic import Field

from capax.data.file_task import FileTask
from capax.data.spec_base import Spec
from capax.errors import InputError, inside, require
from capax.learners.names import Entry
from capax.sweep.experiments.spec import Panel, check_names
from capax.sweep.experiments.tasks import task_of
from capax.sweep.families.fit_pool import FitPool, check_of, drive, kept_pool
from capax.sweep.families.plain_fits import PlainTrial, compare, first_fit, fit_here, outcome_of
from capax.sweep.trial import Learner, Outcome, Trial

_FITS = ("restarts", "time_limit", "memory_gb", "deterministic", "steps", "eval_every")


class Process(Spec):
    """Settings of the process in which a fit runs. They do not change results."""

    memory_gb: float | None = Field(default=None, gt=0, le=2**20)
    deterministic: bool = True


class PlainFamily:
    """Learners with `fit` and `predict`."""

    def __init__(self, entry: Entry, *, keep: bool = False) -> None:
        self._entry, self._keep = entry, keep

    def kept_alive(self) -> "PlainFamily":
        """The same family with one fit at a time, in a process that is kept for the next call."""
        return PlainFamily(self._entry, keep=True)

    def trial(self, panel: Panel, T: int, m: int, index: int) -> Trial:
        """The fit number `index`."""
        for name in {"T", "m", "seed"} & set(panel.task):
            raise InputError(f"task.{name}: set by the sweep, leave it out")
        check_names(panel.optimiser, ("lr",), "optimiser (of a learner that is fitted)")
        check_names(panel.training, _FITS, "training (of a learner that is fitted)")
        with inside("task."):
            task = task_of(panel, T, m, index)
            wanted = f"2 (bits) for {panel.family}"
            require(task.alphabet == 2, "alphabet", wanted, task.alphabet)
        with inside("optimiser."):
            PlainTrial(learner="", source="", options={}, task=task, **panel.optimiser)
        kept = {k: v for k, v in panel.training.items() if k not in Process.model_fields}
        with inside("training."):
            Process(**{k: v for k, v in panel.training.items() if k in Process.model_fields})
            spec = PlainTrial(
                learner=self._entry.name,
                source=self._entry.source,
                options={k: v for k, v in panel.model.items() if k != "family"},
                task=task,
                **panel.optimiser,
                **kept,
            )
        return Trial(panel.name, T, m, index, spec.trial_id, spec)

    def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
        """Any m, up to the number of examples in a data file."""
        task = task_of(panel, T)
        return 1, len(task.split.y) if isinstance(task, FileTask) else None

    def learner(self, panel: Panel, T: int) -> Learner:
        """As many processes as cores (or the kept one), each with one fit at a time."""
        del T
        kept = {k: v for k, v in panel.training.items() if k in Process.model_fields}
        entry, process = self._entry, Process(**kept)
        strict, memory = process.deterministic, process.memory_gb

        def learn_here(trials: Iterator[Trial | None]) -> Iterator[Outcome]:
            check = check_of(trials)
            for number, trial in enumerate(t for t in trials if t is not None):
                fitted, made = partial(fit_here, entry, trial.spec.time_limit, check), []
                outcome = outcome_of(trial, fitted, made)
                if number == 0 and strict and made:
                    compare(trial, made[0], first_fit(trial, fitted))
                check()  # a cancelled fit gives no information about its learner
                yield outcome

        def learn_apart(trials: Iterator[Trial | None]) -> Iterator[Outcome]:
            if self._keep:
                pool, new = kept_pool(entry, memory, 1)
                yield from drive(trials, pool, strict and new)
                return
            with FitPool(entry, memory, None) as pool:
                yield from drive(trials, pool, strict)

        return learn_here if entry.thing is not None else learn_apart

    def prepare(self, panel: Panel, T: int) -> None:
        del panel, T
