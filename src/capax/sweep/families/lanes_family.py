"""Architectures that the engine trains, many at once: the paper's Transformer and the zoo."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from capax.attention.checkpoint import to_bytes
from capax.attention.transformer import Transformer
from capax.data.feasible import smallest_m
from capax.data.file_task import FileTask
from capax.errors import InputError, inside, require
from capax.learners.names import Entry
from capax.sweep.experiments.spec import Panel
from capax.sweep.experiments.tasks import largest_m, task_of
from capax.sweep.trial import Learner, Outcome, Run, Supply, Trial
from capax.training import (
    Hardware,
    OptimiserSpec,
    RunResult,
    TrialResult,
    TrialSpec,
    compile_ahead,
    train,
)
from capax.training.alarm.alarm import shipped_alarm
from capax.training.alarm.giving_up import GiveUp
from capax.training.programs.kernel_choice import compile_in_background, is_written_for
from capax.training.programs.memory import all_memory
from capax.training.programs.piece_sizes import cpu_piece, gpu_lanes, gpu_piece
from capax.training.specs.hardware import MANY, MAX_SLOTS
from capax.training.specs.progress_names import NAMES
from capax.training.steps.paths import path_for

_AT_ONCE = 256  # models that the kernel trains in parallel: nearly two per multiprocessor
_WITH_DROPOUT = 128  # the same with dropout, where one model occupies many multiprocessors
_PROGRAMS = 3  # programs with pieces that are on a GPU at once, also while one follows another
_MANY_SYMBOLS = ("transformer", "transformer2")  # families that take more than two symbols
_SET_BY_THE_SWEEP = {
    "task": ("T", "m", "seed"),
    "model": ("T",),
    "training": ("task", "model", "optimiser"),
}


class LanesFamily:
    """[task], [model], [optimiser] and [training] are the fields of the engine's specs."""

    trains_in_steps: bool = True

    def __init__(self, entry: Entry) -> None:
        assert entry.spec is not None, "an architecture of the engine"
        self._spec = entry.spec

    def trial(self, panel: Panel, T: int, m: int, index: int) -> Trial:
        """The engine's trial number `index`."""
        for part, names in _SET_BY_THE_SWEEP.items():
            for name in set(names) & set(getattr(panel, part)):
                raise InputError(f"{part}.{name}: set by the sweep, leave it out")
        fields = {k: v for k, v in panel.model.items() if k != "family"}
        training: dict[str, Any] = {**panel.training, "restarts": panel.restarts}
        with inside("task."):
            task = task_of(panel, T, m, index)
        with inside("model."):
            many = task.alphabet > 2
            fits = not many or panel.family in _MANY_SYMBOLS
            require(fits, "family", f"one of {_MANY_SYMBOLS} for an alphabet", panel.family)
            symbols = {"alphabet": task.alphabet} if many else {}
            model = self._spec(T=T, **fields, **symbols)
        with inside("optimiser."):
            optimiser = OptimiserSpec(**panel.optimiser)
        with inside("training."):
            spec = TrialSpec(task=task, model=model, optimiser=optimiser, **training)
        return Trial(panel.name, T, m, index, spec.trial_id, spec)

    def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
        """The least m with unambiguous training sets; any m if samples are always fresh."""
        if panel.training.get("mode") == "online":
            return 1, None
        task = task_of(panel, T)
        if isinstance(task, FileTask):
            return 1, len(task.split.y)
        return smallest_m(task), None

    def hardware(self, panel: Panel) -> Hardware:
        """The hardware of the panel, chosen for its longest inputs."""
        T = max(panel.T)
        return _hardware(panel, self.trial(panel, T, largest_m(panel, T), 0).spec)

    def learner(self, panel: Panel, T: int) -> Learner:
        """The engine, from trials of a sweep to outcomes of a sweep."""
        self._kernel_in_background(panel, T)
        hardware = self.hardware(panel)
        block = _piece(panel, self.trial(panel, T, largest_m(panel, T), 0).spec, hardware)

        def learn(trials: Iterator[Trial | None]) -> Iterator[Outcome]:
            supply = trials if isinstance(trials, Supply) else None
            return _trained(panel, T, hardware, block, supply, trials)

        return learn

    def prepare(self, panel: Panel, T: int) -> None:
        """Compile the program of this T while another one trains."""
        self._kernel_in_background(panel, T)
        largest = largest_m(panel, T)
        trial, hardware = self.trial(panel, T, largest, 0), self.hardware(panel)
        block = _piece(panel, trial.spec, hardware)
        progress = _progress(panel)
        compile_ahead(trial.spec, hardware=hardware, max_m=largest, block=block, progress=progress)

    def _kernel_in_background(self, panel: Panel, T: int) -> None:
        """On a GPU, compile the kernel while JAX starts; called before all other work."""
        spec = self.trial(panel, T, largest_m(panel, T), 0).spec
        if not panel.in_pieces:
            compile_in_background(spec)


def _trained(
    panel: Panel,
    T: int,
    hardware: Hardware,
    block: int,
    supply: Supply | None,
    trials: Iterator[Trial | None],
) -> Iterator[Outcome]:
    waiting: dict[str, Trial] = {}
    results = train(
        _specs(trials, waiting),
        hardware=hardware,
        keep="final" if panel.keep_parameters else "none",
        max_m=largest_m(panel, T),
        early_exit=not panel.whole_curves,
        stop_memorised=panel.stop_memorised,
        full_validation=panel.whole_curves,
        examine_from=panel.examine_from,
        block=block,
        measure_progress=_progress(panel),
        give_up=_rule(panel),
        live=None if supply is None else supply.live,
        check=None if supply is None else supply.check,
    )
    for result in results:
        yield _outcome(waiting.pop(result.trial_id), result)


def _progress(panel: Panel) -> bool:
    """Whether hidden progress is recorded: only for bits."""
    wanted = panel.measures_progress or panel.give_up_below > 0
    return wanted and panel.task.get("alphabet", 2) == 2


def _rule(panel: Panel) -> GiveUp | None:
    """The rule that ends runs with a small chance, by the alarm that does not use the support."""
    if panel.give_up_below == 0:
        return None
    return GiveUp(shipped_alarm("blind"), panel.give_up_below)


def _piece(panel: Panel, spec: TrialSpec, hardware: Hardware) -> int:
    """Examples per piece of a gradient, as in `train`; 0: all at once.

    In pieces the cost of a step depends on the m of its lanes, and one program serves every m.
    """
    if not panel.in_pieces:
        return 0
    size = cpu_piece if hardware.platform == "cpu" else gpu_piece
    return size(path_for(spec.model, hardware.platform))


def _hardware(panel: Panel, spec: TrialSpec) -> Hardware:
    """Slots on a GPU, for a round of trials and their restarts.

    With the kernel, models run in parallel, and as many as fit on the GPU take as long as one:
    slots for the trials of a round with all their restarts, which idle slots train ahead of time.
    With dropout fewer models fill the GPU. In a program that XLA compiles, a slot costs the same
    busy or idle: a quarter of the trials of a small round, so that slots stay busy until the end,
    and half of a large one.
    """
    found = Hardware()
    if found.platform == "cpu":
        return found
    if panel.in_pieces:
        memory = all_memory(found.all_devices[0]) // _PROGRAMS
        return Hardware(slots=gpu_lanes(path_for(spec.model, "gpu")), memory_bytes=memory)
    whole = (panel.search.round_size - 1).bit_length()
    half, quarter = 1 << max(3, whole - 1), 1 << max(3, whole - 2)
    every = min(_AT_ONCE, 1 << ((panel.search.round_size * panel.restarts).bit_length() - 1))
    if spec.dropout.is_used and is_written_for(spec, every):
        return Hardware(slots=min(_WITH_DROPOUT, every))
    if is_written_for(spec, every):
        return Hardware(slots=every)
    return Hardware(slots=min(MAX_SLOTS, half if half >= MANY else quarter))


def _specs(trials: Iterator[Trial | None], waiting: dict[str, Trial]) -> Iterator[TrialSpec | None]:
    for trial in trials:
        if trial is None:
            yield None
        else:
            waiting[trial.trial_id] = trial
            yield trial.spec


def _outcome(trial: Trial, result: TrialResult) -> Outcome:
    runs = tuple(_run(run) for run in result.runs)
    return Outcome(trial, result.solved, runs, result.reason)


def _run(result: RunResult) -> Run:
    return Run(
        run_id=result.run_id,
        restart=result.spec.restart,
        outcome=result.outcome,
        solved_step=result.solved_step,
        steps=result.steps,
        seconds=result.seconds,
        spec=result.spec.model_dump(mode="json"),
        curves={name: _stored(name, values) for name, values in result.evals.items()},
        path=result.path,
        reason=result.reason or "",
        parameters=None
        if result.parameters is None
        else _tensors(result.parameters, result.run_id),
    )


def _stored(name: str, values: np.ndarray) -> list[float]:
    """A series as it is stored; measures of progress with five digits, as most are samples."""
    if name in NAMES:
        return [float(f"{value:.5g}") for value in values]
    return [float(value) for value in values]


def _tensors(model: Any, run_id: str) -> bytes:
    """The parameters as the bytes of a safetensors checkpoint."""
    if not isinstance(model, Transformer):
        leaves = jax.tree_util.tree_leaves_with_path(model)
        return safetensors.numpy.save(
            {
                jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(x)
                for path, x in leaves
            }
        )
    return to_bytes(model, {"run_id": run_id})
