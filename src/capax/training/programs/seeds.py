"""From a run's spec to the data of a slot: padded examples, target, rates and keys.

Bits are stored eight to a byte until they enter a slot: at T = 100 000 a training set has 25
million bits, and copying them one to a byte took a quarter of the time between two chunks.
"""

from concurrent.futures import Future

import numpy as np

from capax.data.distributions import word_threshold
from capax.data.file_task import FileTask
from capax.data.task import (
    TaskSpec,
    Training,
    draw_support,
    validation_inputs,
)
from capax.errors import require
from capax.identity import canonical_json, words_of
from capax.training.programs.lane_shapes import packed_width
from capax.training.programs.program import Data, Lane, Program, TargetBits
from capax.training.specs.trial_specs import RunSpec

Seed = tuple[Lane, np.ndarray]  # a lane without parameters, and its initialisation key


def training_for(spec: RunSpec) -> Training | None:
    """The training set of a run; None in online training."""
    return spec.task.training() if spec.mode == "full_batch" else None


def pool_for(task: TaskSpec | FileTask) -> np.ndarray:
    """The validation inputs; inputs of a file have their labels in a last column."""
    if isinstance(task, FileTask):
        return task.pool()
    return validation_inputs(task.T, task.probability, task.validation_size, task.alphabet)


def seed_for(spec: RunSpec, training: Training | None, program: Program, pool: int = 0) -> Seed:
    """The lane of a run without parameters, and the key that draws them.

    pool: the number of its validation set.
    """
    text = canonical_json(spec.model_dump(mode="json"))
    words = {use: np.array(words_of(text, use), np.uint32) for use in ("init", "samples")}
    lane = Lane(
        params=None,
        state=None,
        step=np.zeros((), np.int32),
        data=_padded(training, program),
        target=_target(spec.task, training, program.s, pool),
        lr=np.float32(spec.optimiser.lr),
        weight_decay=np.float32(spec.optimiser.weight_decay),
        steps=np.float32(spec.steps),
        key=words["samples"],
    )
    return lane, words["init"]


def seed_after(
    spec: RunSpec, training: "Future[Training | None]", program: Program, pool: int
) -> Seed:
    """The same, after the training set is drawn; its errors are raised here."""
    return seed_for(spec, training.result(), program, pool)


def unpacked(lane: Lane, T: int, alphabet: int = 2) -> Lane:
    """The lane with its bits one to a byte, as larger symbols are anyway."""
    if alphabet > 2:
        return lane
    bits = np.unpackbits(lane.data.bits, axis=1, count=T, bitorder="little")
    return lane._replace(data=lane.data._replace(bits=bits))


def _padded(training: Training | None, program: Program) -> Data:
    rows = program.rows if program.mode == "full_batch" else 0
    T, A = program.path.spec.T, program.path.spec.alphabet
    bits = np.zeros((rows, packed_width(T, A)), np.uint8)
    y, mask = np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    if training is not None:
        m = len(training.y)
        packed = np.packbits(training.X, axis=1, bitorder="little") if A == 2 else training.X
        bits[:m] = packed
        y[:m], mask[:m] = training.y, 1.0
    return Data(bits, y, mask)


def _target(task: TaskSpec | FileTask, training: Training | None, s: int, pool: int) -> TargetBits:
    if isinstance(task, FileTask):  # y is the last column of the pool
        column = np.zeros(s, np.int32)
        column[0] = task.T
        truth = np.tile(np.array([0.0, 1.0], np.float32), 2 ** (s - 1))
        return TargetBits(column, np.zeros(s, np.float32), truth, np.uint32(0), np.int32(pool))
    support = draw_support(task) if training is None else training.support
    function = task.rule
    require(function.is_boolean, "function", "a Boolean function", task.function)
    require(len(support) <= s, "function", f"at most {s} relevant bits", task.function)
    padded, relevant = np.zeros(s, np.int32), np.zeros(s, np.float32)
    padded[: len(support)], relevant[: len(support)] = support, 1.0
    padding = task.alphabet ** (s - len(support))
    truth = np.tile(function.table, padding).astype(np.float32)
    threshold = np.uint32(word_threshold(task.probability))
    return TargetBits(padded, relevant, truth, threshold, np.int32(pool))
