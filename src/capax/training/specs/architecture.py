"""An architecture: a model that is a plain function of the bits, trained in lanes.

The Transformer has separate paths (`paths`); every other model of the engine is a subclass of
`Architecture`, whose fields are its spec. It needs only a key and bits.
"""

import math
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8
from pydantic import Field

from capax.data.spec_base import Spec


class Architecture(Spec):
    """Spec and functions of a model with logits [m] for bits [m, T].

    A subclass gives `architecture` a name, adds its sizes as fields, and writes `init` and
    `logits`. Parameters are any pytree of float32 arrays.
    """

    architecture: str
    T: int = Field(ge=1)

    @property
    def alphabet(self) -> int:
        """Bits."""
        return 2

    @property
    def in_a_row(self) -> bool:
        """Whether it takes T steps in a row on a GPU."""
        return False

    def init(self, key: Array) -> Any:
        """Freshly drawn parameters."""
        raise NotImplementedError

    def prepare(self, bits: UInt8[Array, "m T"]) -> Any:
        """The inputs as `logits` takes them; done once per training set."""
        return bits.astype(jnp.float32)

    def logits(self, params: Any, inputs: Any) -> Float[Array, "m"]:
        """One logit per example; differentiable in `params`."""
        raise NotImplementedError

    def cpu_logits(self, params: Any, inputs: Any) -> Float[Array, "m"]:
        """The same logits by the operations that are fastest on a CPU, if they differ."""
        return self.logits(params, inputs)

    @property
    def floats_per_example(self) -> int:
        """Numbers kept for the backward pass, for each example of a step (for planning memory)."""
        return 16 * self.T

    @property
    def cpu_floats(self) -> tuple[int, int]:
        """Numbers kept for the backward pass of `cpu_logits`: per example, and fixed."""
        return self.floats_per_example, 0

    @property
    def floats_per_answer(self) -> int:
        """Numbers kept at once for the output of an example without a backward pass."""
        return self.floats_per_example // 2


@lru_cache(maxsize=256)
def num_parameters(spec: Architecture) -> int:
    """Parameters of an architecture, counted on shapes without drawing them."""
    shapes = jax.eval_shape(spec.init, jax.eval_shape(partial(jax.random.key, 0)))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
