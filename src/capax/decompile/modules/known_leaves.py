"""Leaves of PyTorch modules by what they compute: affine maps, LayerNorms, activations."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from capax.decompile.modules.leaf_calls import LeafCall
from capax.decompile.proof.layer_tables import NormWeights
from capax.decompile.proof.table_forward import activated

ACTIVATIONS = ("identity", "relu", "tanh", "gelu", "gelu_tanh")


@dataclass(frozen=True)
class AffineMap:
    """x W + b."""

    W: np.ndarray  # [in, out]
    b: np.ndarray  # [out]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x @ self.W + self.b


def affine_map(call: LeafCall, tolerance: float) -> AffineMap | None:
    """`nn.Linear`, or the `Conv1D` of GPT-2, whose matrix is transposed: checked by values."""
    W = _parameter(call.module, "weight")
    if W is None or W.ndim != 2:
        return None
    b = _parameter(call.module, "bias")
    for matrix in (W.T, W):
        if matrix.shape == (call.inputs[0].shape[-1], call.output.shape[-1]):
            found = AffineMap(matrix, np.zeros(matrix.shape[1]) if b is None else b)
            if found.b.shape == matrix.shape[1:] and near(
                found(call.inputs[0]), call.output, tolerance
            ):
                return found
    return None


def norm_of(call: LeafCall, tolerance: float) -> NormWeights | None:
    """A LayerNorm of any name with its epsilon: checked by values."""
    gain, bias = _parameter(call.module, "weight"), _parameter(call.module, "bias")
    d = call.inputs[0].shape[-1]
    if call.inputs[0].shape != call.output.shape or (gain is not None and gain.shape != (d,)):
        return None
    if "norm" not in type(call.module).__name__.lower():
        return None
    gain, bias = np.ones(d) if gain is None else gain, np.zeros(d) if bias is None else bias
    own = [getattr(call.module, name, None) for name in ("eps", "variance_epsilon")]
    for epsilon in [float(e) for e in own if isinstance(e, float)] or [1e-5]:
        x = call.inputs[0]
        c = x - x.mean(-1, keepdims=True)
        unit = c / np.sqrt((c * c).mean(-1, keepdims=True) + epsilon)
        if near(unit * gain + bias, call.output, tolerance):
            return NormWeights(gain, bias, epsilon)
    return None


def activation_between(before: np.ndarray, after: np.ndarray, tolerance: float) -> str | None:
    """The activation with after = sigma(before): the nearest of those that fit."""
    if before.shape != after.shape:
        return None
    off = {name: distance(activated(name, before), after) for name in ACTIVATIONS}
    best = min(off, key=lambda name: off[name])
    return best if off[best] <= tolerance else None


def near(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether two arrays are equal up to rounding."""
    return a.shape == b.shape and distance(a, b) <= tolerance


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference, relative to the size of the numbers (at least 1)."""
    size = 1.0 + float(np.abs(b).max(initial=0.0))
    off = float(np.abs(a - b).max(initial=0.0)) / size
    return off if np.isfinite(off) else np.inf


def _parameter(module: Any, name: str) -> np.ndarray | None:
    value = getattr(module, name, None)
    return value.detach().cpu().double().numpy() if hasattr(value, "detach") else None
