"""Which trials share a compiled program, and the program of a trial."""

from dataclasses import replace

import jax

from capax.data.file_task import FileTask
from capax.errors import InputError, shown
from capax.training.programs.compiled import executables
from capax.training.programs.memory import MemoryPlan, block_rows, dropout_bytes, plan
from capax.training.programs.piece_sizes import larger_piece, num_places
from capax.training.programs.program import Program
from capax.training.specs.hardware import Hardware, enable_cache
from capax.training.specs.trial_specs import MAX_POOLS, TrialSpec
from capax.training.steps.optimiser import rule_of
from capax.training.steps.parametrisation import Parametrisation
from capax.training.steps.paths import CollapsedPath, path_for

_MIN_SUPPORT = 5  # supports are padded to at least this many positions: targets share programs
_ROWS = {"cpu": 4, "gpu": 8}  # m is padded to a multiple of this (a tensor core reads 16 bytes),
_MORE_ROWS = 16  # and of this when a program must grow for a later trial


def shape_of(trial: TrialSpec) -> dict[str, object]:
    """The fields that all trials of one call share."""
    task = trial.task
    return {
        "model": trial.model,
        "optimiser": rule_of(trial.optimiser),
        "eval_every": trial.eval_every,
        "mode": trial.mode,
        "batch_size": trial.batch_size if trial.mode == "online" else None,
        "data": task.content if isinstance(task, FileTask) else None,
        "p": None if isinstance(task, FileTask) else task.probability,
        "validation_size": task.validation_size,
        "dropout": trial.dropout,
        "parametrisation": _trained(trial),
    }


def _trained(trial: TrialSpec) -> Parametrisation:
    return Parametrisation(trial.two_logits, trial.head_bias, trial.cls_position)


def check_fits(trial: TrialSpec, first: TrialSpec, several_p: bool) -> None:
    """Raise `InputError` unless `trial` can run in the program of `first`.

    several_p: whether its inputs may have another p.
    """
    wanted = shape_of(first)
    for name, value in shape_of(trial).items():
        if value != wanted[name] and not (name == "p" and several_p):
            got, same = shown(value), shown(wanted[name])
            raise InputError(f"trials: wanted the same {name} in all ({same}), got {got}")


def padded_rows(trial: TrialSpec, max_m: int, platform: str) -> int:
    """Examples per step in the program: m padded, or the batch size of online training."""
    if trial.mode == "online":
        return trial.batch_size
    multiple = _ROWS.get(platform, 1)
    return -(-max(trial.task.m, max_m) // multiple) * multiple


def program_of(trial: TrialSpec, hardware: Hardware, max_m: int = 1, block: int = 0) -> Program:
    """The program that trains `trial` on `hardware`, with gradients in pieces of `block` rows."""
    path = path_for(trial.model, hardware.platform, _trained(trial))
    rows = padded_rows(trial, max_m, hardware.platform)
    labelled = isinstance(trial.task, FileTask)
    s = 1 if isinstance(trial.task, FileTask) else trial.task.rule.s
    least = _MIN_SUPPORT if trial.task.alphabet == 2 else 1  # targets have alphabet^s entries
    whole = trial.mode == "online" or trial.dropout.is_used
    block = 0 if whole else block
    larger, places = 0, 1
    if block:
        rows = -(-rows // block) * block
        if isinstance(path, CollapsedPath):  # a design matrix in thirds cannot be cut into pieces
            path = replace(path, tensor_cores=False)
        if hardware.platform == "cpu":
            larger = larger_piece(path, block, rows)
        else:
            places = num_places(path, block)
    return Program(
        path=path,
        rule=rule_of(trial.optimiser),
        rows=rows,
        s=max(least, s),
        chunk=trial.eval_every,
        mode=trial.mode,
        validation_rows=trial.task.validation_size,
        block_rows=block_rows(path),
        block=block,
        places=places,
        larger=larger,
        alone=hardware.platform == "cpu",
        labelled=labelled,
        pools=MAX_POOLS if block and not labelled else 1,
        dropout=trial.dropout,
    )


def memory_of(program: Program, hardware: Hardware) -> MemoryPlan:
    """Slots that fit; `InfeasibleError` with the numbers if no slot fits."""
    kept = max(program.block, program.larger) or program.rows
    together = program.block > 0 and hardware.platform != "cpu"
    whole = program.rows if together else None
    besides = dropout_bytes(program.path, kept) if program.dropout.is_used else 0
    return plan(
        program.path, kept, program.validation_rows, hardware, whole, besides, program.places
    )


def compile_ahead(
    trial: TrialSpec,
    *,
    hardware: Hardware | None = None,
    max_m: int = 1,
    width: int | None = None,
    block: int = 0,
    progress: bool = False,
) -> None:
    """Compile the program of `trial` for every worker; call it in a thread while others train.

    width: slots per worker (default: `hardware.slots`, or as many as fit). progress: also compile
    the measures of hidden progress.
    """
    hardware = hardware or Hardware()
    enable_cache(hardware)
    program = program_of(trial, hardware, max_m, block)
    slots = width or memory_of(program, hardware).slots
    devices: set[jax.Device] = set(hardware.worker_devices())
    for device in devices:
        executables(program, device, slots, hardware.compiler_options(), progress)


def with_rows(program: Program, m: int) -> Program:
    """The program for at least m examples (the same if it is large enough, or online)."""
    if program.mode == "online" or m <= program.rows:
        return program
    multiple = program.block or _MORE_ROWS
    return replace(program, rows=-(-m // multiple) * multiple)
