"""The shape of a compiled program, and what a lane of it has: the state of one run on the device.

Rates, data, m (by a mask), support and target are inputs, so that one program serves every run of a
shape (`advancing`: K training steps and an evaluation).
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from jaxtyping import Array, Float, Int

from capax.training.specs.trial_specs import NOTHING_DROPPED, DropoutSpec, OptimiserSpec
from capax.training.steps.paths import Path

SUBSET = 512  # validation rows examined at every evaluation; the rest only if these are all right


@dataclass(frozen=True)
class Program:
    """The shape of a compiled program. `rows` = padded m, or the batch size of online training."""

    path: Path
    rule: OptimiserSpec
    rows: int
    s: int
    chunk: int
    mode: Literal["full_batch", "online"]
    validation_rows: int
    block_rows: int
    fused: bool = False  # steps of the whole ensemble as one kernel (`capax.training.fused`)
    block: int = 0  # examples per piece of a gradient; 0: all at once
    places: int = 1  # pieces of any lanes that are computed together, where lanes run together
    larger: int = 0  # examples in a larger piece of a single lane; 0: all pieces are alike
    alone: bool = False  # lanes are computed one after the other, as on a CPU
    labelled: bool = False  # the pool has the labels in a column after the inputs
    pools: int = 1  # validation sets, of which a lane has one
    dropout: DropoutSpec = NOTHING_DROPPED

    def looks_itself(self, width: int) -> bool:
        """Whether one program advances and examines the whole pool: for a single lane with
        gradients in pieces on a CPU, as in a card. Compilation takes a quarter of a card's time."""
        whole = self.mode == "full_batch" and not self.dropout.is_used
        return width == 1 and self.alone and self.block > 0 and whole


# A leaf of a lane: a JAX array on the device, a NumPy array while the lane is being made on the
# host, or a shape while a program is being compiled. The comments give type and shape.
Leaf = Any


class TargetBits(NamedTuple):
    """y = truth[sum_i x[support_i] A^i]; `relevant` is 0 on padding of the support."""

    support: Leaf  # int32 [s]
    relevant: Leaf  # float32 [s]
    truth: Leaf  # float32 [A^s]
    threshold: Leaf  # uint32 []: P[bit = 1] = threshold / 2^32
    pool: Leaf  # int32 []: the number of its validation set


class Data(NamedTuple):
    """A padded training set (empty in online training) with its mask."""

    bits: Leaf  # uint8 [m, T]; eight to a byte (see `programs.seeds`) until it is in a slot
    y: Leaf  # float32 [m]
    mask: Leaf  # float32 [m]


class Lane(NamedTuple):
    """One run on the device: parameters, optimiser state, data, target, rates and key."""

    params: Any
    state: Any
    step: Leaf  # int32 []
    data: Data
    target: TargetBits
    lr: Leaf  # float32 []
    weight_decay: Leaf  # float32 []
    steps: Leaf  # float32 []
    key: Leaf  # uint32 [2]


class LaneMeasures(NamedTuple):
    """The results of an evaluation: `correct` of the first `SUBSET` validation rows."""

    loss: Float[Array, ""]
    train_accuracy: Float[Array, ""]
    correct: Int[Array, ""]
    mass: Float[Array, ""]
