"""The kernel for the steps of a program: the whole step, the tokens under dropout, or no kernel."""

import threading
from contextlib import suppress

import jax

from capax.attention.transformer import TransformerSpec
from capax.training.dropout import token_kernel
from capax.training.fused import step as whole_step
from capax.training.fused.nvrtc import NvrtcError
from capax.training.fused.step import DRIVER, has_hopper
from capax.training.fused.step_kernel import ptx as whole_step_ptx
from capax.training.programs.program import Program
from capax.training.specs.hardware import MANY
from capax.training.specs.trial_specs import TrialSpec
from capax.training.steps.paths import CollapsedPath


def may_serve(program: Program, width: int, device: jax.Device) -> bool:
    """Whether a kernel supports this program and kind of device; it is not tested here."""
    path = program.path
    if not isinstance(path, CollapsedPath) or not has_hopper(device):
        return False
    if program.dropout.is_used:
        return token_kernel.not_covered(path.spec, program.dropout) is None
    if program.mode != "full_batch" or program.block or not path.trained.is_plain:
        return False
    return whole_step.not_covered(path.spec, program.rule, program.rows, width) is None


def source_compiles(program: Program) -> bool:
    """Whether NVRTC compiles the kernel of a program; it takes seconds, the first time."""
    spec = program.path.spec
    assert isinstance(spec, TransformerSpec), "only Transformers have a kernel"
    try:
        if program.dropout.is_used:
            return bool(token_kernel.ptx(program.dropout))
        return bool(whole_step_ptx(spec, program.rule))
    except NvrtcError:
        return False


def trouble(program: Program, width: int, device: jax.Device) -> str | None:
    """Why the kernel does not run here, tested on one example; None if it does."""
    spec = program.path.spec
    assert isinstance(spec, TransformerSpec), "only Transformers have a kernel"
    if program.dropout.is_used:
        return token_kernel.why_not(spec, program.dropout, device)
    return whole_step.why_not(spec, program.rule, program.rows, width, device)


def is_written_for(trial: TrialSpec, width: int) -> bool:
    """Whether a kernel supports `width` trials like this one, on a GPU of the right kind."""
    model = trial.model
    if not isinstance(model, TransformerSpec):
        return False
    if trial.dropout.is_used:
        return token_kernel.not_covered(model, trial.dropout) is None
    if trial.mode != "full_batch" or trial.two_logits or trial.cls_position or not trial.head_bias:
        return False
    return whole_step.not_covered(model, trial.optimiser, trial.task.m, width) is None


def compile_in_background(trial: TrialSpec) -> None:
    """Start NVRTC now, if there is an NVIDIA driver and a kernel for this trial: it takes seconds,
    in parallel with the start of JAX and the drawing of data. `trouble` reports its errors."""
    if is_written_for(trial, MANY) and DRIVER.exists():
        threading.Thread(target=_quietly, args=(trial,), daemon=True).start()


def _quietly(trial: TrialSpec) -> None:
    assert isinstance(trial.model, TransformerSpec), "only Transformers have a kernel"
    with suppress(NvrtcError):
        if trial.dropout.is_used:
            token_kernel.ptx(trial.dropout)
        else:
            whole_step_ptx(trial.model, trial.optimiser)
