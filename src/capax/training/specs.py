"""What a training run is: task, model, optimiser, budget. Frozen; its identity is its hash.

A trial is one task with up to `restarts` runs: same data, new initialisation. Everything that
changes a result is a field here; everything that only changes speed is in `hardware`.
"""

from typing import Literal

from pydantic import Field, SerializeAsAny, model_validator

from capax.attention.transformer import TransformerSpec
from capax.data.file_task import FileTask
from capax.data.specs import Spec
from capax.data.task import TaskSpec
from capax.errors import require
from capax.identity import digest
from capax.training.architecture import Architecture


class OptimiserSpec(Spec):
    """The update rule: `adamw`, `adam` or `sgd` with momentum, as Optax defines them.

    `schedule`: factor on `lr` over the run: constant, linear to 0 or half a cosine to 0, after
    `warmup` steps that grow linearly from 0. `weight_decay` is decoupled and for `adamw` only.
    """

    name: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    b1: float = Field(default=0.9, ge=0, lt=1)
    b2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0)


class _Training(Spec):
    task: TaskSpec | FileTask
    model: TransformerSpec | SerializeAsAny[Architecture]
    optimiser: OptimiserSpec = OptimiserSpec()
    steps: int = Field(default=1000, ge=1)
    eval_every: int = Field(default=100, ge=1)
    mode: Literal["full_batch", "online"] = "full_batch"
    batch_size: int = Field(default=512, ge=1)

    @model_validator(mode="after")
    def _fields_fit_together(self):
        require(self.task.T == self.model.T, "model.T", f"task.T = {self.task.T}", self.model.T)
        require(self.model.alphabet == 2, "model.alphabet", "2 (bits)", self.model.alphabet)
        wanted = f"a multiple of eval_every = {self.eval_every}"
        require(self.steps % self.eval_every == 0, "steps", wanted, self.steps)
        drawn = isinstance(self.task, TaskSpec) or self.mode == "full_batch"
        require(drawn, "mode", "full_batch for the examples of a file", self.mode)
        require(self.task.validation_size >= 1, "validation_size", "at least 1", 0)
        return self


class RunSpec(_Training):
    """One training run: restart number `restart` of its trial."""

    restart: int = Field(default=0, ge=0)

    @property
    def run_id(self) -> str:
        """Hash of the fields; the initialisation and the fresh samples are drawn from it."""
        return digest(self.model_dump(mode="json"))


class TrialSpec(_Training):
    """A task that is solved if one of `restarts` runs solves it."""

    restarts: int = Field(default=5, ge=1)

    @property
    def trial_id(self) -> str:
        """Hash of the fields."""
        return digest(self.model_dump(mode="json"))

    def run(self, restart: int) -> RunSpec:
        """The run number `restart` of this trial."""
        require(0 <= restart < self.restarts, "restart", f"0..{self.restarts - 1}", restart)
        fields = {name: getattr(self, name) for name in _Training.model_fields}
        return RunSpec(**fields, restart=restart)
