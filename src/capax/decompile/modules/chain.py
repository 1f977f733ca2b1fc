"""The parts between the attention and the logit, matched call by call.

Each call is explained by the one before: its input is the sum so far, a LayerNorm of it, an
activation of the last affine map, or one row of a matrix of tokens (the row that is read). A module
with another call is not of the form.
"""

from dataclasses import dataclass

import numpy as np

from capax.decompile.modules.known_leaves import (
    AffineMap,
    activation_between,
    affine_map,
    near,
    norm_of,
)
from capax.decompile.modules.leaf_calls import LeafCall, NotRead
from capax.decompile.proof.layer_tables import NormWeights
from capax.decompile.proof.one_query_layer import Kept, Pooler


@dataclass(frozen=True)
class StreamRow:
    """A vector of each example: rows [n, L, d] of which one is read, or that one [n, d]."""

    value: np.ndarray
    row: int | None = None

    def at(self, target: np.ndarray, tolerance: float) -> "StreamRow | None":
        """The same vector if a call received it as `target`; otherwise None.

        Raises `NotRead` if the mean over the rows was received.
        """
        if near(self.value, target, tolerance):
            return StreamRow(target, self.row)
        flat = target[:, 0] if target.ndim == 3 and target.shape[1] == 1 else target
        if self.value.ndim != 3 or flat.ndim != 2 or flat.shape[1] != self.value.shape[2]:
            return None
        for row in range(self.value.shape[1]):
            if near(self.value[:, row], flat, tolerance):
                return StreamRow(flat, row)
        if near(self.value.mean(1), flat, tolerance):
            raise NotRead("the mean over all tokens is read: every token asks")
        return None

    def like(self, other: np.ndarray) -> np.ndarray:
        """Another matrix of tokens, cut to the row that is read."""
        if self.value.ndim == other.ndim or self.row is None:
            return other
        return other[:, self.row]


@dataclass(frozen=True)
class Mlp:
    """sigma(y W_in + b_in) W_out + b_out and the vector before it in the sum."""

    into: AffineMap
    activation: str
    out: AffineMap
    kept: Kept


@dataclass(frozen=True)
class Chain:
    """The parts after the attention, and the row that is read (None: no row was chosen)."""

    norm: NormWeights | None
    mlp: Mlp | None
    final: NormWeights | None
    pooler: Pooler | None
    head: AffineMap
    row: int | None
    logits: np.ndarray


def chain_behind(x: np.ndarray, calls: list[LeafCall], tolerance: float) -> Chain:
    """From the residual x [n, L, d] after attention to the logits, by the calls that follow."""
    rest = [c for c in calls if _is_known(c, tolerance)]
    state = StreamRow(x)
    norm, state, rest = _norm(state, rest, tolerance)
    mlp, after, left = _mlp(StreamRow(state.like(x), state.row), state, norm, rest, tolerance)
    if mlp is None:
        final, norm = norm, None
        after, left = state, rest
    else:
        final, after, left = _norm(after, left, tolerance)
    pooler, after, left = _pooler(after, left, tolerance)
    if len(left) != 1:
        raise NotRead(f"{len(left)} maps behind the layer, wanted one read-out")
    head = affine_map(left[0], tolerance)
    read = after.at(left[0].inputs[0], tolerance)
    if head is None or read is None:
        raise NotRead("a read-out whose input is not the last vector of the layer")
    return Chain(norm, mlp, final, pooler, head, read.row, left[0].output)


def _is_known(call: LeafCall, tolerance: float) -> bool:
    """Affine maps and norms; leaves without parameters show in the values around them."""
    if affine_map(call, tolerance) or norm_of(call, tolerance):
        return True
    if any(True for _ in call.module.parameters()):
        raise NotRead(f"a {type(call.module).__name__} behind the attention")
    return False


def _norm(
    state: StreamRow, calls: list[LeafCall], tolerance: float
) -> tuple[NormWeights | None, StreamRow, list[LeafCall]]:
    """A LayerNorm of the state, if it comes next."""
    found = norm_of(calls[0], tolerance) if calls else None
    if found is None:
        return None, state, calls
    read = state.at(calls[0].inputs[0], tolerance)
    if read is None:
        raise NotRead("a norm of something else than the residual")
    output = calls[0].output
    return found, StreamRow(output.reshape(read.value.shape), read.row), calls[1:]


def _mlp(
    x: StreamRow, y: StreamRow, norm: NormWeights | None, calls: list[LeafCall], tolerance: float
) -> tuple[Mlp | None, StreamRow, list[LeafCall]]:
    """Two affine maps with an activation, added to x or to y = LN(x)."""
    if len(calls) < 3:
        return None, y, calls
    into, out = (affine_map(call, tolerance) for call in calls[:2])
    read = y.at(calls[0].inputs[0], tolerance)
    if into is None or out is None or read is None:
        return None, y, calls
    name = activation_between(calls[0].output, calls[1].inputs[0], tolerance)
    if name is None or calls[1].output.shape[-1] != x.value.shape[-1]:
        return None, y, calls
    added = calls[1].output.reshape(read.value.shape)
    base = {"residual": read.like(x.value)} | ({"normed": read.value} if norm else {})
    for kept, value in base.items():
        total = StreamRow(value + added, read.row)
        if total.at(calls[2].inputs[0], tolerance) is not None:
            return Mlp(into, name, out, kept), total, calls[2:]  # type: ignore[arg-type]
    return None, y, calls


def _pooler(
    state: StreamRow, calls: list[LeafCall], tolerance: float
) -> tuple[Pooler | None, StreamRow, list[LeafCall]]:
    """An affine map and an activation before the read-out, if two maps are left."""
    if len(calls) != 2:
        return None, state, calls
    found = affine_map(calls[0], tolerance)
    read = state.at(calls[0].inputs[0], tolerance)
    if found is None or read is None:
        raise NotRead("a map whose input is not the last vector of the layer")
    inside = StreamRow(calls[0].output, read.row)
    second = calls[1].inputs[0]
    for row in (None, *range(inside.value.shape[1] if inside.value.ndim == 3 else 0)):
        value = inside.value if row is None else inside.value[:, row]
        name = activation_between(value, second.reshape(value.shape) if second.size == value.size
                                  else second, tolerance)  # fmt: skip
        if name is not None:
            chosen = read.row if row is None else row
            return Pooler(found.W, found.b, name), StreamRow(second, chosen), calls[1:]
    raise NotRead("an activation in front of the read-out that is not known")
