"""Any learner in a sweep: architectures go to the engine, everything else to processes of its own.

For a plain learner (scikit-learn, PyTorch, the user's function) the tables of an experiment are

    [model]      family = "tree" or "mine.py:build", and settings of the learner itself
    [task]       as for every learner, without T, m and seed
    [training]   restarts, time_limit (seconds per fit), memory_gb, deterministic, and steps and
                 eval_every for PyTorch modules;  [optimiser] lr, for them too

A trial is solved when one of its restarts labels the whole validation set right. A fit that raises,
hangs, eats memory or answers nonsense is a failed run with the reason; the sweep goes on.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import psutil
from pydantic import Field

from capax.data.file_task import FileTask
from capax.data.specs import Spec
from capax.data.task import Task, TaskSpec, draw_task
from capax.errors import CapaxError, InputError, inside
from capax.identity import digest, key_words
from capax.learners.adapters import Setting, fit_of
from capax.learners.fitting import Attempt, attempt
from capax.learners.isolation import Isolated
from capax.learners.names import Entry
from capax.learners.time_limit import time_limit
from capax.machine import num_cores
from capax.sweep.families import Family
from capax.sweep.spec import Panel, check_names
from capax.sweep.tasks import task_of
from capax.sweep.trial import Learner, Outcome, Run, Trial

Attempter = Callable[[Setting, np.ndarray, np.ndarray, np.ndarray, int], Attempt]
_FITS = ("restarts", "time_limit", "memory_gb", "deterministic", "steps", "eval_every")


def family_of_entry(entry: Entry) -> Family:
    """The family of a learner."""
    if not entry.in_lanes:
        return PlainFamily(entry)
    from capax.sweep.transformer_family import TransformerFamily

    class Lanes(TransformerFamily):
        """The engine with another architecture."""

        def model(self, fields: dict[str, Any], T: int) -> Any:
            assert entry.spec is not None
            return entry.spec(T=T, **fields)

    return Lanes()


class Process(Spec):
    """How the process of a fit is kept: changes no result."""

    memory_gb: float | None = Field(default=None, gt=0, le=2**20)
    deterministic: bool = True


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
        """What determines one run."""
        return {**self.model_dump(mode="json", exclude={"restarts"}), "restart": restart}

    def setting(self) -> Setting:
        """What the learner is told."""
        task = self.task
        rates = {"rate": self.lr, "steps": self.steps, "eval_every": self.eval_every}
        return Setting(T=task.T, function=task.function, options=self.options, **rates)


class PlainFamily:
    """Learners with `fit` and `predict`."""

    def __init__(self, entry: Entry, workers: int | None = None) -> None:
        self._entry, self._workers = entry, workers

    def trial(self, panel: Panel, T: int, m: int, index: int) -> Trial:
        """The fit number `index`."""
        for name in {"T", "m", "seed"} & set(panel.task):
            raise InputError(f"task.{name}: set by the sweep, leave it out")
        check_names(panel.optimiser, ("lr",), "optimiser (of a learner that is fitted)")
        check_names(panel.training, _FITS, "training (of a learner that is fitted)")
        with inside("task."):
            task = task_of(panel, T, m, index)
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
        """Any m, but no more than a file has."""
        task = task_of(panel, T)
        return 1, len(task.split.y) if isinstance(task, FileTask) else None

    def learner(self, panel: Panel, T: int) -> Learner:
        """As many processes as workers (cores, if None), each with one fit at a time."""
        del T
        kept = {k: v for k, v in panel.training.items() if k in Process.model_fields}
        entry, process = self._entry, Process(**kept)
        strict, memory = process.deterministic, process.memory_gb

        def learn(trials: Iterator[Trial | None]) -> Iterator[Outcome]:
            first = True
            for trial in trials:
                if trial is None:
                    continue
                if first and strict:
                    _compare(trial, partial(_here, entry, trial.spec.time_limit))
                first = False
                yield _outcome(trial, partial(_here, entry, trial.spec.time_limit))

        def learn_apart(trials: Iterator[Trial | None]) -> Iterator[Outcome]:
            with _Crew(entry, memory, self._workers) as crew:
                yield from _drive(trials, crew, strict)

        return learn if entry.thing is not None else learn_apart

    def prepare(self, panel: Panel, T: int) -> None:
        del panel, T


class _Crew:
    """Workshops, and threads that wait for them."""

    def __init__(self, entry: Entry, memory_gb: float | None, workers: int | None) -> None:
        self.size = workers or num_cores()
        free = psutil.virtual_memory().available
        memory = int(memory_gb * 2**30) if memory_gb else int(0.8 * free / self.size)
        self._free: SimpleQueue[Isolated] = SimpleQueue()
        self._all = [
            Isolated(entry.reference, seconds=60.0, memory_bytes=memory) for _ in range(self.size)
        ]
        for workshop in self._all:
            self._free.put(workshop)
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="capax-fit")

    def __enter__(self) -> "_Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for workshop in self._all:
            workshop.close()

    def submit(self, trial: Trial, twice: bool) -> "Future[Outcome]":
        """Start a trial; `twice`: its first fit is done two times and compared."""
        return self._threads.submit(self._work, trial, twice)

    def _work(self, trial: Trial, twice: bool) -> Outcome:
        workshop = self._free.get()
        workshop.seconds = trial.spec.time_limit
        try:
            if twice:
                _compare(trial, workshop.attempt)
            return _outcome(trial, workshop.attempt)
        finally:
            self._free.put(workshop)


def _drive(trials: Iterator[Trial | None], crew: _Crew, strict: bool) -> Iterator[Outcome]:
    running: set[Future[Outcome]] = set()
    exhausted = False
    while True:
        while not exhausted and len(running) < crew.size:
            trial = next(trials, _END)
            exhausted = trial is _END
            if not isinstance(trial, Trial):
                break
            running.add(crew.submit(trial, strict))
            strict = False
        if running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
        elif exhausted:
            return
        else:
            time.sleep(0.01)


_END = object()


def _outcome(trial: Trial, fitted: Attempter) -> Outcome:
    """Restarts until one is solved: the same data, another key."""
    spec: PlainTrial = trial.spec
    try:
        task = _data(spec.task)
    except CapaxError as error:
        return Outcome(trial, False, (_run(spec, 0, Attempt(reason=str(error)), []),))
    runs = []
    for restart in range(spec.restarts):
        key = key_words(spec.run_fields(restart), "fit")[0]
        made = fitted(spec.setting(), task.X_train, task.y_train, task.X_validation, key)
        right = [float(np.mean(row == (task.y_validation > 0))) for row in made.answers]
        runs.append(_run(spec, restart, made, right))
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


def _here(
    entry: Entry,
    seconds: float,
    setting: Setting,
    X: np.ndarray,
    y: np.ndarray,
    inputs: np.ndarray,
    key: int,
) -> Attempt:
    """A fit in this process: for learners that live nowhere else."""
    with time_limit(seconds):
        return attempt(fit_of(entry.thing, setting), X, y, inputs, key)


def _compare(trial: Trial, fitted: Attempter) -> None:
    """Raises `InputError` when two fits with the same data and key answer differently."""
    spec: PlainTrial = trial.spec
    task = _data(spec.task)
    key = key_words(spec.run_fields(0), "fit")[0]
    data = (spec.setting(), task.X_train, task.y_train, task.X_validation, key)
    one, two = fitted(*data), fitted(*data)
    if one.reason or two.reason or np.array_equal(one.answers, two.answers):
        return
    differ = int((one.answers[-1] != two.answers[-1]).sum())
    raise InputError(
        f"learner: {spec.learner} is not deterministic: two fits with the same data and key differ "
        f"on {differ} of {len(task.y_validation)} answers; use `key`, or set deterministic = false"
    )
