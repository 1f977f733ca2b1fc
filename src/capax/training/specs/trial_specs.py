"""The specification of a training run: task, model, optimiser, protocol. Its identity is its hash.

A trial is one task with up to `restarts` runs: same data, new initialisation and new dropout masks.
Every setting that changes a result is a field here; settings that only change speed are in
`hardware`.
"""

from typing import Literal

from pydantic import Field, SerializeAsAny, model_validator

from capax.attention.collapsed import one_layer
from capax.attention.transformer import TransformerSpec
from capax.data.file_task import FileTask
from capax.data.spec_base import GrownSpec, Spec
from capax.data.task import TaskSpec
from capax.errors import require
from capax.identity import digest
from capax.training.specs.architecture import Architecture

MAX_POOLS = 4
"""Values of p, so validation sets, in one call with gradients in pieces."""


class OptimiserSpec(GrownSpec):
    """The update rule: `adamw`, `adam` or `sgd` with momentum, as Optax defines them.

    `schedule`: factor on `lr` over the run: constant, linear to 0 or half a cosine to 0, after
    `warmup` steps that grow linearly from 0. `decay`: decoupled weight decay belongs to `adamw`;
    coupled decay (`adam` only) adds `weight_decay` times the parameters to the gradient, as the
    `weight_decay` of PyTorch's Adam does. `decayed`: all parameters, or the weights of linear maps
    alone (W_Q, W_K, W_V, W_O, W_in, W_out and the read-out). `clip`: gradients of a larger norm
    are scaled down to this norm, before any decay is added.
    """

    later = ("decay", "decayed", "clip")

    name: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    b1: float = Field(default=0.9, ge=0, lt=1)
    b2: float = Field(default=0.999, ge=0, lt=1)
    eps: float = Field(default=1e-8, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: int = Field(default=0, ge=0)
    decay: Literal["decoupled", "coupled"] = "decoupled"
    decayed: Literal["all", "weights"] = "all"
    clip: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _coupled_decay_is_part_of_adam(self) -> "OptimiserSpec":
        fits = self.decay == "decoupled" or self.name == "adam"
        require(fits, "decay", "decoupled, or coupled with name = 'adam'", f"name {self.name!r}")
        return self


class DropoutSpec(Spec):
    """Chances that a number is set to 0 in training (the others are scaled up), as in minGPT.

    `attention`: the weights of a head; `embedding`: the token vectors, [CLS] among them, before the
    block; `output`: the outputs of attention and MLP. Evaluation has no dropout.
    """

    attention: float = 0.0
    embedding: float = 0.0
    output: float = 0.0

    @model_validator(mode="after")
    def _chances(self) -> "DropoutSpec":
        for name, chance in self:
            require(0 <= chance < 1, f"dropout.{name}", "a chance in [0, 1)", chance)
        return self

    @property
    def is_used(self) -> bool:
        """Whether a chance is above 0."""
        return (self.attention, self.embedding, self.output) != (0.0, 0.0, 0.0)


NOTHING_DROPPED = DropoutSpec()


class SuccessRule(Spec):
    """When a run counts as solved: its validation accuracy exceeds `accuracy`.

    `accuracy` = 1 requires every row to be right. `when`: at the best evaluation, or at the end.
    """

    accuracy: float = 1.0
    when: Literal["best", "end"] = "best"

    @model_validator(mode="after")
    def _can_be_met_and_missed(self) -> "SuccessRule":
        wanted = "a share from 0.5 (guessing) to 1 (no run has more)"
        require(0.5 <= self.accuracy <= 1, "success.accuracy", wanted, self.accuracy)
        return self

    def is_met(self, accuracy: float) -> bool:
        """Whether this accuracy on the whole validation set is enough."""
        return accuracy > self.accuracy or accuracy == 1.0


class _RunFields(GrownSpec):
    later = ("dropout", "success", "two_logits", "head_bias", "cls_position")

    task: SerializeAsAny[TaskSpec] | FileTask
    model: TransformerSpec | SerializeAsAny[Architecture]
    optimiser: OptimiserSpec = OptimiserSpec()
    steps: int = Field(default=1000, ge=1)
    eval_every: int = Field(default=100, ge=1)
    mode: Literal["full_batch", "online"] = "full_batch"
    batch_size: int = Field(default=512, ge=1)
    dropout: DropoutSpec = NOTHING_DROPPED
    success: SuccessRule = SuccessRule()
    two_logits: bool = False
    head_bias: bool = True
    cls_position: bool = False

    @model_validator(mode="after")
    def _fields_fit_together(self):
        require(self.task.T == self.model.T, "model.T", f"task.T = {self.task.T}", self.model.T)
        symbols = self.task.alphabet
        fits = self.model.alphabet == symbols
        require(fits, "model.alphabet", f"task.alphabet = {symbols}", self.model.alphabet)
        wanted = f"a multiple of eval_every = {self.eval_every}"
        require(self.steps % self.eval_every == 0, "steps", wanted, self.steps)
        drawn = isinstance(self.task, TaskSpec) or self.mode == "full_batch"
        require(drawn, "mode", "full_batch for the examples of a file", self.mode)
        require(self.task.validation_size >= 1, "validation_size", "at least 1", 0)
        return self

    @model_validator(mode="after")
    def _protocol_fits_the_model(self):
        """The details of minGPT are written for the paper's network: one layer, softmax."""
        model, network = self.model, "a one-layer Transformer with softmax"
        fits = isinstance(model, TransformerSpec) and one_layer.why_not(model) is None
        for name in ("dropout", "two_logits", "head_bias", "cls_position"):
            value = getattr(self, name)
            unset = value == type(self).model_fields[name].default
            require(fits or unset, name, network, "another model")
        return self


class RunSpec(_RunFields):
    """One training run: restart number `restart` of its trial."""

    restart: int = Field(default=0, ge=0)

    @property
    def run_id(self) -> str:
        """Hash of the fields; the initialisation and the fresh samples are drawn from it."""
        return digest(self.model_dump(mode="json"))


class TrialSpec(_RunFields):
    """A task that is solved if one of `restarts` runs solves it.

    `two_logits`: two output embeddings are trained, one per label, and the logit is their
    difference; `head_bias`: the read-out has a trained bias; `cls_position`: [CLS] is the sum of a
    token embedding and a position, both trained. The paper's network has two logits, no bias and a
    position for [CLS].
    """

    restarts: int = Field(default=5, ge=1)

    @property
    def trial_id(self) -> str:
        """Hash of the fields."""
        return digest(self.model_dump(mode="json"))

    def run(self, restart: int) -> RunSpec:
        """The run number `restart` of this trial."""
        require(0 <= restart < self.restarts, "restart", f"0..{self.restarts - 1}", restart)
        fields = {name: getattr(self, name) for name in _RunFields.model_fields}
        return RunSpec(**fields, restart=restart)
