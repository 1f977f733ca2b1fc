"""From a store to Figure 3 (left) and Figure 4: the curves of its runs."""

from collections import defaultdict
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from capax.boolean import parse
from capax.errors import InputError
from capax.figures.experiments.learning_curves import LearningCurve, LearningCurves
from capax.figures.experiments.parity_transition import ParityPanel, ParityRun, ParityTransition
from capax.figures.stored.runs import StoredRun, describe_task, panels_of, stored_runs
from capax.sweep.storage.store import Store

_MOST_SEEDS = 200  # of a setting in one picture
_ACCURACIES = ("train_accuracy", "validation_accuracy")


def learning_curves(store: Store, *, thresholds: dict[int, int] | None = None) -> LearningCurves:
    """Figure 3, left: the best run of every trial at the largest T of the store's curve panels.

    `thresholds` maps T to m* from another store, if known. Raises `InputError` without curves.
    """
    panels = panels_of(store, "curves")
    runs = [run for panel in panels for run in stored_runs(store, panel.name) if _complete(run)]
    if not runs:
        raise InputError(f"{store.path}: no runs at a few fixed m, which Figure 3 needs")
    T = max(run.T for run in runs)
    chosen = _best_of_each_trial([run for run in runs if run.T == T])
    curves = tuple(_learning_curve(run) for run in chosen)
    return LearningCurves(describe_task(chosen[0].spec), T, curves, (thresholds or {}).get(T))


def _complete(run: StoredRun) -> bool:
    return all(run.curves.get(name) for name in ("step", *_ACCURACIES))


def _best_of_each_trial(runs: list[StoredRun]) -> list[StoredRun]:
    """The run of every trial that solved it, or else came closest."""
    trials: dict[str, list[StoredRun]] = defaultdict(list)
    for run in runs:
        trials[run.trial_id].append(run)
    return [
        max(group, key=lambda run: (run.outcome == "solved", run.final_accuracy or 0.0))
        for group in trials.values()
    ]


def _learning_curve(run: StoredRun) -> LearningCurve:
    step, train, validation = (_array(run, name) for name in ("step", *_ACCURACIES))
    return LearningCurve(run.run_id, run.m, step, train, validation, run.solved_step)


def parity_transition(store: Store) -> ParityTransition:
    """Figure 4: every seed of every panel that draws fresh samples, by T.

    Raises `InputError` without such runs.
    """
    settings: dict[tuple[int, int], list[StoredRun]] = defaultdict(list)
    for panel in panels_of(store, "transition"):
        for run in stored_runs(store, panel.name, below=_MOST_SEEDS):
            if run.curves.get("loss"):
                settings[_sparsity(run.spec), run.T].append(run)
    if not settings:
        raise InputError(f"{store.path}: no runs with mode = 'online', which Figure 4 needs")
    return ParityTransition(
        tuple(
            ParityPanel(T, s, tuple(_parity_run(run) for run in settings[s, T]))
            for s, T in sorted(settings)
        )
    )


def _parity_run(run: StoredRun) -> ParityRun:
    mass = _array(run, "attention_mass") if run.curves.get("attention_mass") else None
    step, loss, accuracy = (_array(run, name) for name in ("step", "loss", "validation_accuracy"))
    return ParityRun(run.run_id, step, loss, accuracy, mass, run.solved_step)


def _array(run: StoredRun, name: str) -> Float[ndarray, " n"]:
    return np.asarray(run.curves[name], dtype=np.float64)


def _sparsity(spec: dict[str, Any]) -> int:
    task = spec["task"]
    return parse(task["function"], task["T"], alphabet=task.get("alphabet", 2)).s
