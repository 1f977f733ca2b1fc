"""One trained model in one call: a formula, T and m in; the Transformer and its record out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capax.attention.checkpoint import save
from capax.attention.transformer import Transformer, transformer_spec
from capax.boolean.parser import is_shorthand
from capax.data.task import Task, TaskSpec, draw_task
from capax.data.task_files import write_task
from capax.errors import require
from capax.html import html_table
from capax.training.alarm.live_file import LiveFile
from capax.training.engine import OnTally, train
from capax.training.specs.run_results import RunResult, TrialResult
from capax.training.specs.trial_specs import OptimiserSpec, TrialSpec

WATCHED = 64  # validation inputs on which the attention by position is averaged
_ROWS_AT_ONCE = 1024  # the naive forward pass holds rows x T x d numbers


@dataclass(frozen=True)
class Trained:
    """A trained Transformer with its task and the record of its training.

    Examples:
        >>> import capax
        >>> trained = capax.train("x1 & x3", T=7, m=60, steps=200, model={"d": 16, "heads": 4})
        >>> trained.spec.task.function, trained.run.path
        ('x1 & x3', 'collapsed')
    """

    model: Transformer
    task: Task
    spec: TrialSpec
    result: TrialResult

    @property
    def solved(self) -> bool:
        """Whether a run reached 100 % validation accuracy."""
        return self.result.solved

    @property
    def run(self) -> RunResult:
        """The run of the model: the last one, which is the solved one, if any."""
        return self.result.runs[-1]

    @property
    def accuracy(self) -> float:
        """Validation accuracy of the model, from its last evaluation where that saw every row."""
        seen = self.run.evals
        if len(seen["step"]) and seen["validation_rows"][-1] == len(self.task.y_validation):
            return float(seen["validation_accuracy"][-1])
        return float(np.mean(self.predict(self.task.X_validation) == self.task.y_validation))

    def logits(self, X: Any) -> np.ndarray:
        """The model's logit for each row of X [n, T]; positive means 1."""
        import jax

        rows = np.asarray(X, dtype=np.uint8)
        require(rows.ndim == 2, "X", "rows of bits, shape [n, T]", rows.shape)
        forward = jax.jit(jax.vmap(self.model))
        parts = (rows[i : i + _ROWS_AT_ONCE] for i in range(0, len(rows), _ROWS_AT_ONCE))
        return np.concatenate([np.asarray(forward(part)) for part in parts] or [np.zeros(0)])

    def predict(self, X: Any) -> np.ndarray:
        """The label, 0 or 1, for each row of X [n, T]."""
        return (self.logits(X) > 0).astype(np.uint8)

    def save(self, path: Path | str, data: Path | str | None = None) -> Path:
        """Write the model (safetensors), and its data (.npz) to `data`, if given."""
        if data is not None:
            write_task(data, self.spec.task, self.task)
        about = {"spec": self.spec.model_dump(mode="json"), "outcome": self.run.outcome}
        return save(path, self.model, about)

    def _repr_html_(self) -> str:
        positions = ", ".join(f"x{x}" for x in self.task.support)
        state = "solved" if self.solved else f"not solved, {100 * self.accuracy:.2f} % right"
        rows = (
            ("task", f"{self.spec.task.function} on {positions}"),
            ("sizes", f"T = {self.spec.task.T}, m = {self.spec.task.m}"),
            ("outcome", f"{state} after {len(self.result.runs)} of {self.spec.restarts} runs"),
            ("last run", f"{self.run.steps} steps, {self.run.seconds:.1f} s, {self.run.path}"),
        )
        return html_table(rows, title="Trained Transformer")


def train_model(
    function: str = "and3",
    T: int = 50,
    m: int = 300,
    *,
    seed: int = 0,
    restarts: int = 5,
    steps: int = 1000,
    lr: float = 1e-3,
    task: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    optimiser: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    max_m: int = 1,
    measure_progress: bool = False,
    progress: OnTally | None = None,
    live: Path | str | None = None,
) -> Trained:
    """Train one Transformer on `function` of T bits from m examples, as the paper does.

    A formula keeps its positions; a shorthand such as `and3` is placed at random. `seed` draws
    support and examples, and thereby the initialisations; `restarts` runs are tried until one has
    100 % validation accuracy. `task`, `model`, `optimiser` and `training` hold further
    fields of `TaskSpec`, `TransformerSpec`, `OptimiserSpec` and `TrialSpec`. Trainings with m up to
    `max_m` share one compiled program, whose sums are rounded in another order.
    `measure_progress`: the record has the measures of hidden progress too (`progress_names`).
    live: a file for `capax watch`, which exists during training.
    Raises `InputError` for fields that do not exist or do not fit.

    Examples:
        >>> import capax
        >>> trained = capax.train("x1 & x3", T=7, m=60, steps=200, model={"d": 16, "heads": 4})
        >>> trained.task.X_train.shape
        (60, 7)
        >>> len(trained.predict([[1, 1, 0, 1, 0, 0, 1]]))
        1
    """
    spec = trial_of(
        function, T, m,
        seed=seed, restarts=restarts, steps=steps, lr=lr,
        task=task, model=model, optimiser=optimiser, training=training,
    )  # fmt: skip
    with _live(live) as looks:
        measured = measure_progress or (looks is not None and spec.task.alphabet == 2)
        (result,) = train(
            [spec],
            keep="final",
            progress=progress,
            max_m=max_m,
            live=looks,
            measure_progress=measured,
        )
    kept = result.runs[-1].parameters
    assert kept is not None, "the engine keeps parameters when asked"
    assert isinstance(spec.task, TaskSpec)
    return Trained(kept, draw_task(spec.task), spec, result)


@contextmanager
def _live(path: Path | str | None) -> Iterator[LiveFile | None]:
    if path is None:
        yield None
        return
    looks = LiveFile(Path(path))
    try:
        yield looks
    finally:
        looks.close()


def trial_of(
    function: str,
    T: int,
    m: int,
    *,
    seed: int,
    restarts: int,
    steps: int,
    lr: float,
    task: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    optimiser: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
) -> TrialSpec:
    """The trial of `train_model` with these arguments."""
    support = "random" if is_shorthand(function) else "formula"
    first: dict[str, Any] = {"function": function, "T": T, "m": m, "seed": seed, "support": support}
    rule: dict[str, Any] = {"lr": lr, **(optimiser or {})}
    budget: dict[str, Any] = {"steps": steps, "restarts": restarts, **(training or {})}
    return TrialSpec(
        task=TaskSpec(**(first | (task or {}))),
        model=transformer_spec(**({"T": T} | (model or {}))),
        optimiser=OptimiserSpec(**rule),
        **budget,
    )
