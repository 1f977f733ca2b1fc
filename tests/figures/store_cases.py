"""Small stores written by hand: curves, phase transitions and simulated thresholds."""

import dataclasses
from pathlib import Path

import figure_cases as cases

from capax.sweep.experiments.spec import Experiment, build_experiment
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial

TASK = {"function": "and3", "p": "balanced"}


def experiment(**panels: dict) -> Experiment:
    fields = {"name": "toy", "claim": "none", "panels": panels, "scales": {"quick": {}}}
    return build_experiment(fields)


def grid(m: list[int], trials: int = 1, **options: object) -> dict:
    return {"search": {"method": "grid", "m": m, "trials": trials}, **options}


def stored_run(T: int, m: int, number: int, restart: int, curves: dict, **options: object) -> Run:
    spec = {"task": {**TASK, "T": T, "m": m, "seed": number}, "restart": restart}
    spec["task"] |= options.get("task", {})
    solved_step = options.get("solved_step")
    return Run(
        run_id=cases.identifier(T, m, number, restart),
        restart=restart,
        outcome="solved" if solved_step is not None else "failed",
        solved_step=solved_step,
        steps=1000,
        seconds=0.5,
        spec=spec,
        curves=curves,
    )


def write(path: Path, experiment: Experiment, trials: list[tuple]) -> Path:
    """A store with the given (panel, T, m, number, runs)."""
    with Store.create_or_resume(path, experiment) as store:
        for panel, T, m, number, runs in trials:
            trial = Trial(panel, T, m, number, cases.identifier(panel, T, m, number), None)
            solved = any(run.outcome == "solved" for run in runs)
            store.add(Outcome(trial, solved, tuple(runs)))
    return path


def accuracy_curves(*validation: float) -> dict:
    steps = [100.0 * k for k in range(len(validation))]
    return {
        "step": steps,
        "loss": [0.1] * len(steps),
        "train_accuracy": [1.0] * len(steps),
        "validation_accuracy": list(validation),
    }


def curve_store(path: Path) -> Path:
    """m = 199 solved by its second restart; m = 53 never, its first restart comes closest."""
    above = [
        stored_run(307, 199, 0, 0, accuracy_curves(0.5, 0.7)),
        stored_run(307, 199, 0, 1, accuracy_curves(0.5, 1.0), solved_step=100),
    ]
    below = [
        stored_run(307, 53, 0, 0, accuracy_curves(0.5, 0.8)),
        stored_run(307, 53, 0, 1, accuracy_curves(0.5, 0.6)),
    ]
    panels = {"curves": grid([199, 53], T=[307])}
    trials = [("curves", 307, 199, 0, above), ("curves", 307, 53, 0, below)]
    return write(path, experiment(**panels), trials)


def transition_store(path: Path, *, with_mass: bool = True) -> Path:
    """Two lengths, two seeds each; the second seed at T = 13 is not solved."""
    trials = []
    for T in (11, 13):
        for seed in range(2):
            curves = accuracy_curves(0.5, 1.0) | (
                {"attention_mass": [0.2, 0.7]} if with_mass else {}
            )
            solved_step = None if (T, seed) == (13, 1) else 100
            options = {"task": {"function": "parity3"}, "solved_step": solved_step}
            run = stored_run(T, 512, seed, 0, curves, **options)
            trials.append(("parity", T, 512, seed, [run]))
    panels = {"parity": grid([512], trials=2, T=[11, 13], training={"mode": "online"})}
    return write(path, experiment(**panels), trials)


def simulated_store(path: Path) -> Path:
    """A real sweep of simulated learners with thresholds 20 + 8 log T."""
    model = {"family": "simulated", "threshold": 20.0, "growth": 8.0}
    wanted = experiment(threshold=grid(list(cases.SIZES), 10, T=list(cases.LENGTHS), model=model))
    with Store.create_or_resume(path, wanted) as store:
        run_sweep(wanted, store)
    return path


def plateau_store(path: Path) -> Path:
    """Simulated learners: one that learns, one that levels off at 50%, one that never begins."""
    sizes = list(cases.SIZES)
    panels = {
        "threshold": grid(
            sizes, 30, T=[53, 101, 307], model={"family": "simulated", "threshold": 30.0}
        )
    }
    share = {53: lambda m: m >= 40, 101: lambda m: 0.5 * (m >= 30), 307: lambda _: 0}
    trials = []
    for T, rate in share.items():
        for m in sizes:
            for number in range(30):
                step = 100 if number < 30 * rate(m) else None
                run = stored_run(T, m, number, 0, accuracy_curves(0.5, 1.0), solved_step=step)
                trials.append(("threshold", T, m, number, [run]))
    return write(path, experiment(**panels), trials)


def threshold_store(path: Path) -> Path:
    """Trials of a 3-bit AND that succeed from m = 61 on, at two lengths; nothing was trained."""
    sizes = [17, 31, 47, 61, 79]
    trials = []
    for T in (53, 101):
        for m in sizes:
            for number in range(4):
                solved_step = 100 if m >= 61 else None
                run = stored_run(
                    T, m, number, 0, accuracy_curves(0.5, 1.0), solved_step=solved_step
                )
                trials.append(("threshold", T, m, number, [run]))
    panels = {"threshold": grid(sizes, trials=4, T=[53, 101], task=TASK)}
    return write(path, experiment(**panels), trials)


def with_parameters(run: Run, tensors: bytes) -> Run:
    return dataclasses.replace(run, parameters=tensors)
