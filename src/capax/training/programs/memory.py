"""A plan of the memory, made before it is used: bytes of a slot, slots that fit, rows per block.

The counts are of the arrays that exist at the same time (float32 = 4 bytes):
parameters, two moments and gradients 4 x num_parameters; the one-hot design matrix A T x rows
(as float32, or four times as bfloat16) and the bits; about six tables of A T x (d + H); activations
of the rows. With several layers the tables have A T x (d + H) columns for each of their A T rows,
piece by piece, and so have about four arrays of sums for each example; tokens of the first layer
keep 10 d + 4 mlp_width for the backward pass. Tokens of a naive layer keep 6 d + 2 H, and H T
weights; other architectures state their own numbers per example. Gradients in pieces need that only
for the pieces that are computed together; a slot has its state, its inputs and the results of its
pieces.
"""

import math
from dataclasses import dataclass

import jax
import psutil

from capax.attention.collapsed.pairwise_table import PIECE
from capax.attention.transformer import TransformerSpec
from capax.errors import InfeasibleError
from capax.training.specs import architecture
from capax.training.specs.architecture import Architecture
from capax.training.specs.hardware import Hardware
from capax.training.steps.paths import CollapsedPath, ModulePath, Path

_FLOAT = 4
_USABLE = 0.8  # of the free memory: the rest is for the compiler's own buffers
_BLOCK_BYTES = 1 << 25  # one-hot rows examined at once,
_TENSOR_BLOCK_BYTES = 1 << 28  # and on a GPU, where every block reads the tables of all slots anew
_PIECE_BYTES = 1 << 26  # for the backward pass of a larger piece of a gradient
_INPUT_BYTES = 20  # of a symbol and its prepared form: at most three bfloat16 rows


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of one slot, shared bytes of a device, and the slots that fit."""

    slot_bytes: int
    shared_bytes: int
    limit_bytes: int
    slots: int


def num_parameters(spec: TransformerSpec | Architecture) -> int:
    """Parameters of the model."""
    if isinstance(spec, Architecture):
        return architecture.num_parameters(spec)
    return sum(math.prod(shape) for shape in spec.shapes().values())


def floats_per_example(path: Path) -> int:
    """Numbers kept for the backward pass of one example."""
    spec = path.spec
    if isinstance(path, ModulePath):
        return path.kept_floats[0]
    assert isinstance(spec, TransformerSpec)
    mlp = 6 * (spec.mlp_width + 2 * spec.d)
    if path.name == "naive":
        return mlp + _as_written(spec, spec.layers)
    pairs = spec.alphabet * spec.T
    design = 2 * pairs
    if path.name == "collapsed":
        return mlp + design
    tokens = spec.T * (10 * spec.d + 4 * spec.mlp_width) + 4 * pairs * (spec.d + spec.heads)
    return mlp + design + tokens + _as_written(spec, spec.layers - 2)


def slot_bytes(path: Path, rows: int) -> int:
    """Bytes of one run in training with `rows` examples per step."""
    spec = path.spec
    state, bits = 4 * num_parameters(spec) * _FLOAT, rows * spec.T
    kept = (rows * floats_per_example(path) + _fixed_floats(path)) * _FLOAT
    if path.name == "pairwise":  # every slot has its own activations of a block
        kept = max(kept, 2 * _BLOCK_BYTES)
    return state + bits + kept


def _fixed_floats(path: Path) -> int:
    """Numbers kept for the backward pass, whatever the number of examples: tables of all tokens."""
    spec = path.spec
    if isinstance(path, ModulePath):
        return path.kept_floats[1]
    assert isinstance(spec, TransformerSpec)
    pairs, columns = spec.alphabet * spec.T, spec.d + spec.heads
    if path.name == "naive":
        return 0
    if path.name == "collapsed":
        return 6 * pairs * columns
    return 5 * min(pairs**2 * columns, PIECE) + 2 * spec.heads * pairs**2


def _as_written(spec: TransformerSpec, layers: int) -> int:
    """Numbers per example that so many layers keep; the last one has a single query."""
    tokens = spec.T * (6 * spec.d + 2 * spec.heads) * layers
    return tokens + spec.heads * spec.T**2 * min(layers, spec.layers - 1)


def block_rows(path: Path) -> int:
    """Validation rows examined at once, so that a block stays near 32 MB (256 MB on a GPU)."""
    spec = path.spec
    if isinstance(spec, Architecture):
        return max(1, min(1024, _BLOCK_BYTES // (spec.floats_per_answer * _FLOAT)))
    pairs, tokens = spec.alphabet * spec.T, spec.T * (4 * spec.d + spec.heads)
    size = _BLOCK_BYTES
    if isinstance(path, CollapsedPath):
        width, size = pairs, _TENSOR_BLOCK_BYTES if path.tensor_cores else size
    elif path.name == "naive":
        width = tokens + (spec.layers > 1) * spec.heads * spec.T**2
    else:  # every token of a middle layer attends to every other
        width = pairs * (spec.d + spec.heads) + spec.T * (2 * spec.d + spec.mlp_width)
        width += (spec.layers > 2) * (tokens + spec.heads * spec.T**2)
    return max(1, min(1024, size // (width * _FLOAT)))


def piece_rows(path: Path) -> int:
    """The largest number of examples in a larger piece of a gradient, on a CPU."""
    return _PIECE_BYTES // (slot_bytes(path, 1) - slot_bytes(path, 0))


def device_memory(device: jax.Device, hardware: Hardware) -> int:
    """Bytes that a program may use on `device`; on a CPU its share of the RAM."""
    if hardware.memory_bytes is not None:
        return hardware.memory_bytes
    if device.platform == "cpu":
        return psutil.virtual_memory().available // len(hardware.worker_devices())
    stats = device.memory_stats() or {}
    return all_memory(device) - int(stats.get("bytes_in_use", 0))


def all_memory(device: jax.Device) -> int:
    """Bytes of an accelerator that this process may use, including bytes in use."""
    return int((device.memory_stats() or {}).get("bytes_limit", 8 << 30))


def dropout_bytes(path: Path, rows: int) -> int:
    """Additional bytes of a run with dropout: about 20 arrays with a vector per example and head,
    and 12 with the tokens of one example."""
    spec = path.spec
    assert isinstance(spec, TransformerSpec), "specs with dropout are Transformers"
    return _FLOAT * spec.d * (20 * rows * spec.heads + 12 * spec.T)


def plan(
    path: Path,
    rows: int,
    validation_rows: int,
    hardware: Hardware,
    whole: int | None = None,
    besides: int = 0,
    places: int = 1,
) -> MemoryPlan:
    """The number of slots on each worker; `InfeasibleError` with the numbers if no slot fits.

    rows: examples whose activations a run keeps at once; whole: all its examples, if slots run
    together and their gradients are in pieces of `rows` examples, `places` of them at a time.
    besides: further bytes per slot.
    """
    spec, one = path.spec, slot_bytes(path, rows) + besides
    block = 4 * block_rows(path) * spec.alphabet * spec.T * _FLOAT
    shared = validation_rows * spec.T + block
    if whole is not None:
        shared += places * one
        inputs = whole * spec.T * _INPUT_BYTES
        kept = 4 + -(-whole // rows)  # the state, and the result of each piece of a gradient
        one = kept * num_parameters(spec) * _FLOAT + inputs
    limit = min(device_memory(device, hardware) for device in hardware.worker_devices())
    fitting = int(_USABLE * limit - shared) // one
    if fitting < 1:
        raise InfeasibleError(
            f"memory: one run with T = {spec.T}, m = {rows} needs {_gb(one)} and its validation "
            f"set {_gb(shared)}, but {_gb(int(_USABLE * limit))} of {_gb(limit)} may be used; "
            f"use a smaller T, m, d or validation_size, or fewer workers"
        )
    return MemoryPlan(one, shared, limit, min(fitting, hardware.max_slots))


def _gb(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
