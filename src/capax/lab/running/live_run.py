"""One training run, a few steps at a time: the engine's own slot, with an event after each chunk.

The run is that of `capax train` with one restart: the same data, initial weights and program, and
the same steps of evaluation. Only the learning rate may change during training.
"""

import time
from typing import Any

import numpy as np

from capax.data.task import TaskSpec
from capax.decompile.decompiling import Effort, decompile
from capax.decompile.reading.oracle import attention_by_position
from capax.training.one_model import WATCHED
from capax.training.programs.program import SUBSET
from capax.training.programs.seeds import pool_for, seed_for, training_for
from capax.training.programs.shape import program_of
from capax.training.slots.slots import Slots
from capax.training.specs.hardware import Hardware, enable_cache
from capax.training.specs.progress_names import NAMES
from capax.training.specs.trial_specs import TrialSpec

QUICK = Effort(max_support=6, pairs=150, fillers=8, fresh=300, cells=0)
WHOLE = Effort(max_support=8, pairs=500, fillers=16, fresh=2000)


class LiveRun:
    """A run that is paused between two chunks."""

    def __init__(self, spec: TrialSpec, max_m: int = 1, progress: bool = False) -> None:
        hardware = Hardware(workers=1)
        enable_cache(hardware)
        self._spec, run = spec, spec.run(0)
        assert isinstance(spec.task, TaskSpec), "the lab trains on drawn tasks"
        self._p = spec.task.probability
        program = program_of(spec, hardware, max_m)
        training = training_for(run)
        self._pool = pool_for(spec.task)
        device = hardware.all_devices[0]
        options = hardware.compiler_options()
        self._slots = Slots(program, device, 1, [self._pool], options, progress)
        self._slots.admit({0: seed_for(run, training, program)})
        self.support = () if training is None else tuple(int(t) for t in training.support)
        self.step, self.seconds = 0, 0.0
        self.solved = self.diverged = False

    @property
    def over(self) -> bool:
        """Whether training is finished."""
        return self.solved or self.diverged or self.step >= self._spec.steps

    def change_rate(self, lr: float) -> None:
        """Continue with another learning rate."""
        self._slots.change_rate(lr)

    def look(self) -> dict[str, Any]:
        """Train one chunk; returns the measurements of the network."""
        began = time.perf_counter()
        measured = self._slots.advance([0])
        self.step += self._spec.eval_every
        loss, n = float(measured.loss[0]), min(SUBSET, len(self._pool))
        self.diverged = not np.isfinite(loss)
        validation, rows, mass = float(measured.correct[0]) / n, n, float(measured.mass[0])
        if validation == 1.0:  # as in the engine: evaluate on the whole pool, the mass too
            correct, masses = self._slots.examine([0])
            validation, rows = float(correct[0]) / len(self._pool), len(self._pool)
            mass = float(masses[0])
        self.solved = rows == len(self._pool) and self._spec.success.is_met(validation)
        seen: dict[str, Any] = {
            "step": self.step,
            "loss": loss,
            "train_accuracy": float(measured.train_accuracy[0]),
            "validation_accuracy": validation,
            "validation_rows": rows,
            "mass": mass,
        }
        if not self.diverged:
            seen |= self._read()
        if self._slots.records_progress:
            seen["progress"] = dict(zip(NAMES, self._slots.progress()[0].tolist(), strict=True))
        self.seconds += time.perf_counter() - began
        return seen

    def _read(self) -> dict[str, Any]:
        """Attention by position, and the formula with the best agreement, from few queries."""
        model = self._slots.model(0)
        found = decompile(model, p=self._p, effort=QUICK)
        return {
            "attention": attention_by_position(model, self._pool[:WATCHED]),
            "formula": found.formula.text,
            "agreement": found.agreement.value,
        }

    def verdict(self) -> dict[str, Any]:
        """The outcome, and the proved statement about the network on all inputs."""
        outcome = "diverged" if self.diverged else "solved" if self.solved else "failed"
        if self.diverged:
            return {"outcome": outcome, "steps": self.step}
        correct, _ = self._slots.examine([0])
        found = decompile(self._slots.model(0), p=self._p, effort=WHOLE)
        return {
            "outcome": outcome,
            "steps": self.step,
            "validation_accuracy": float(correct[0]) / len(self._pool),
            "formula": found.formula.text,
            "all_inputs": found.all_inputs.to_json(),
        }
