"""Tensors by name and shape, and a record of the ones a layout has used."""

from collections.abc import Mapping

import numpy as np

from capax.audit.layouts.attention_layer import Array, Norm
from capax.audit.reading.stored import StoredTensor
from capax.errors import InputError, require


class TensorTable:
    """The tensors of a checkpoint; records which ones were read."""

    def __init__(self, tensors: Mapping[str, StoredTensor]) -> None:
        self.tensors = tensors
        self.taken: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether a tensor of this name exists."""
        return name in self.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        if name not in self.tensors:
            raise InputError(f"checkpoint: no tensor named {name}")
        return self.tensors[name].shape

    def take(self, name: str, *shape: int) -> Array:
        """The numbers of a tensor; InputError unless it has this shape and is finite."""
        found = self.shape(name)
        require(found == shape, name, f"shape {shape} (from heads and widths)", found)
        self.taken.add(name)
        values = self.tensors[name].load()
        if not np.isfinite(values).all():
            bad = int(values.size - np.isfinite(values).sum())
            raise InputError(f"{name}: it has {bad} NaN or infinite numbers")
        return values

    def maybe(self, name: str, *shape: int) -> Array | None:
        """As `take`, or None if there is no such tensor."""
        return self.take(name, *shape) if self.has(name) else None

    def layer_norm(self, name: str, d: int) -> Norm:
        """LayerNorm under `name`; old files call gain and offset gamma and beta."""
        old = self.has(f"{name}.gamma")
        gain = self.take(f"{name}.{'gamma' if old else 'weight'}", d)
        return Norm("layer", gain, self.maybe(f"{name}.{'beta' if old else 'bias'}", d))

    def rms_norm(self, name: str, d: int, plus: float = 0.0) -> Norm:
        """RMSNorm under `name`; `plus` is 1 for families that store the gain less one."""
        return Norm("rms", plus + self.take(f"{name}.weight", d))
