"""The examples that test a model: in `capax bound`, `capax decompile` or a program.

Hold-out rows must be new to the model. The validation set of a task is not new: it ended the
training run and chose the restart. If the task is known, fresh rows are drawn from it instead. If
not, `looks` is the number of models that the rows have tested, and each has its part of delta.
"""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from capax.boolean.consistent.survivors import is_unique
from capax.capacity.complexity.tail_inversion import binomial_lower
from capax.data.distributions import input_rows
from capax.data.examples import Examples, fresh_examples, read_examples, training_examples
from capax.data.file_task import content_of
from capax.data.task import TaskSpec, labels
from capax.errors import require
from capax.identity import key_words

ACCEPTANCE_DRAWS = 200
"""Further training sets that are drawn to learn how often one is accepted; fixed in advance."""
COINCIDENCE = 1e-6
"""Hold-out rows with many training rows are refused if chance explains them with less than this."""


@dataclass(frozen=True)
class Evidence:
    """The data of a certificate besides the weights of the model.

    data: the training examples. holdout: examples that are new to the model and have tested `looks`
    models. family: placements of this formula are bounded as separate predictors. frozen: only
    the read-out was trained on the data. prior: a network of the same shape that was trained on the
    first `prior_size` training examples only.

    Examples:
        >>> import capax
        >>> task = capax.TaskSpec(function="x1 & x4", T=6, m=40, support="formula")
        >>> evidence = capax.capacity.task_evidence(task)
        >>> len(evidence.data.y), len(evidence.holdout.y)
        (40, 10000)
    """

    data: Examples | None = None
    holdout: Examples | None = None
    looks: int = 1
    family: str | None = None
    frozen: bool = False
    prior: Any = None
    prior_size: int = 0

    def __post_init__(self) -> None:
        needs_data = self.family is not None or self.frozen or self.prior is not None
        require(self.data is not None or not needs_data, "data",
                "training data beside family, frozen and prior", "no training data")  # fmt: skip
        if self.data is None or self.holdout is None:
            return
        T, other = self.data.X.shape[1], self.holdout.X.shape[1]
        require(other == T, "holdout", f"rows of {T} bits, as the training data", other)
        same = np.array_equal(self.data.X, self.holdout.X)
        require(not same, "holdout", "examples the model was not trained on", "the training set")
        twins = twins_beyond_chance(self.data.X, self.holdout.X)
        require(twins == 0, "holdout", "examples the model was not trained on",
                f"{twins} rows of the training set")  # fmt: skip

    @property
    def task(self) -> TaskSpec | None:
        """The task of the training data, if it is known."""
        return None if self.data is None else self.data.task


def twins_beyond_chance(X: UInt8[np.ndarray, "m T"], Z: UInt8[np.ndarray, "n T"]) -> int:
    """The number of rows of X that are also in Z, if too large for independent rows; else 0.

    Rows of one law may be exchanged, for any law: two equal rows that occur nowhere else lie in
    different sets with chance q = 2 m n / ((m + n) (m + n - 1)), and in one set otherwise. A part
    of the training set that serves as hold-out rows has all its pairs in different sets.
    """
    m, n = len(X), len(Z)
    own, other = (Counter(hash(row.tobytes()) for row in rows) for rows in (X, Z))
    pairs = [row for row, times in (own + other).items() if times == 2]
    apart = sum(own[row] == 1 for row in pairs)
    q = 2 * m * n / ((m + n) * (m + n - 1))
    beyond = apart > 0 and binomial_lower(apart, len(pairs), math.log(COINCIDENCE)) > q
    return apart if beyond else 0


def task_evidence(task: TaskSpec) -> Evidence:
    """The training set of a task, drawn again, and fresh hold-out rows."""
    return Evidence(training_examples(task), fresh_examples(task))


def read_evidence(
    data: Path | str | None, holdout: Path | str | None = None, **chosen: Any
) -> Evidence:
    """Training data and hold-out rows from files; `chosen`: the other fields of `Evidence`.

    If the training file states its task and no hold-out file is given, fresh rows are drawn.
    """
    seen = None if data is None else read_examples(data, "train")
    if holdout is not None:
        fresh = _untouched(holdout)
    else:
        task = None if seen is None else seen.task
        fresh = None if task is None else fresh_examples(task)
    return Evidence(seen, fresh, **chosen)


def _untouched(path: Path | str) -> Examples:
    """The hold-out rows of a file; rows of a task have tested its runs and are drawn afresh."""
    given = read_examples(path, "validation")
    if given.task is None:
        return given
    right = bool((labels(given.task.target, given.X) == given.y).all())
    require(right, f"{path}: y_validation", "the labels of the task in its spec", "other labels")
    return fresh_examples(given.task, len(given.y))


def acceptance(task: TaskSpec, draws: int = ACCEPTANCE_DRAWS) -> tuple[int, int]:
    """(accepted, draws): how many further training sets of the task leave one placement possible.

    The support does not change the chance: bits are exchangeable.
    """
    f, key = task.target, key_words(task.model_dump(mode="json"), "acceptance")
    accepted = 0
    for stream in range(draws):
        X = input_rows(task.m, task.T, task.probability, task.alphabet, key=key, stream=stream)
        accepted += is_unique(f, X, labels(f, X))
    return accepted, draws


def looks_in_training(spec: Any, holdout: Path | str | None) -> int:
    """The number of candidates that the rows of a hold-out file have tested during training.

    spec: the training specification stored with the model. A run on the examples of a file is
    stopped, and its restart chosen, by the file's validation rows. The checkpoints of all restarts
    do not depend on these rows, so each of them may have its part of delta. If only the number r of
    a run is known, and not their total, its part is 1/((r + 1)(r + 2)); these parts add up to 1.
    """
    task = spec.get("task") if isinstance(spec, dict) else None
    if holdout is None or not isinstance(task, dict) or "content" not in task:
        return 1
    if content_of(holdout) != task["content"]:
        return 1
    counts = {name: spec.get(name, 1) for name in ("steps", "eval_every", "restarts", "restart")}
    for name, count in counts.items():
        whole = isinstance(count, int) and count >= (name != "restart")
        require(whole, f"spec.{name}", "a count", count)
    checkpoints = max(1, counts["steps"] // counts["eval_every"])
    if "restarts" in spec:
        return checkpoints * counts["restarts"]
    return checkpoints * (counts["restart"] + 1) * (counts["restart"] + 2)
