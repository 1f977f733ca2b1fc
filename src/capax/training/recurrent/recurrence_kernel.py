"""The loops of a cell as kernels of a GPU: their PTX and their calls from JAX.

As XLA compiles it, a step of the loop is a dozen kernels of a few microseconds each. With the whole
loop as one kernel a step of training took a quarter of the time on an H200. Float32 only.
"""

import functools
import threading
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32

from capax.training.fused.nvrtc import NvrtcError, kept_ptx
from capax.training.recurrent.cells import CellInputs, Kept, RecurrentCell
from capax.training.steps.together import one_launch

MOST_HIDDEN = 64  # its weights fit into a multiprocessor's shared memory
_ROWS, _EACH, _PARTS = 32, 4, 8  # as in `recurrence.cu`
_DRIVER = Path("/dev/nvidiactl")
_one_asks = threading.Lock()


@functools.cache
def _ptx(cell: str, hidden: int, keep: bool) -> str:
    source = resources.files("capax.training.recurrent") / "cuda" / "recurrence.cu"
    macros = [f"-D{cell.upper()}", f"-DHIDDEN={hidden}", *(["-DKEEP"] if keep else [])]
    options = ["--gpu-architecture=compute_80", "--std=c++17", *macros]
    return kept_ptx(source.read_text(), {}, options)


def runs_here(cell: RecurrentCell, hidden: int) -> bool:
    """Whether this machine's GPU runs the kernels for `hidden` units: they are compiled and tested
    on one example, once."""
    if hidden % 8 or hidden > MOST_HIDDEN or not _DRIVER.exists():
        return False
    with _one_asks, jax.ensure_compile_time_eval():
        return _tried(cell, hidden)


@functools.cache
def _tried(cell: RecurrentCell, hidden: int) -> bool:
    """With weights 0 and a = 1, h after one position is known; so is da of h's last gate."""
    wide = cell.num_gates * hidden
    shapes = [(1, 1, wide), (1, 1, wide), (1, 1, 1), (1, hidden, wide), (1, wide), (1, 1, hidden)]
    s, t = 1 / (1 + np.exp(-1.0)), np.tanh(1.0)
    wanted = s * np.tanh(s * t) if cell.name == "lstm" else (1 - s) * t
    slope = np.tanh(s * t) * s * (1 - s) if cell.name == "lstm" else (1 - s) * (1 - t**2)
    try:
        device = jax.devices("cuda")[0]
        numbers = [np.full(shape, i in (0, 5), np.float32) for i, shape in enumerate(shapes)]
        *entering, W, b, dh = jax.device_put(numbers, device)
        h, seen = jax.jit(functools.partial(_kept, cell))(CellInputs(*entering), W, b)
        _, da = jax.jit(functools.partial(_back, cell))(dh, seen, W)
    except (NvrtcError, RuntimeError):  # also JAX's own, which are RuntimeErrors
        return False
    found = np.array([h[0, 0, 0], da[0, 0, 0, -1]])
    return bool(np.allclose(found, [wanted, slope], rtol=1e-4))


def last(cell: RecurrentCell, inputs: CellInputs, W: Array, b: Array) -> Float32[Array, "m n"]:
    """`cells.last` as a kernel."""
    return _batched(cell, "last")(inputs, W, b)


def kept(cell: RecurrentCell, inputs: CellInputs, W: Array, b: Array) -> tuple[Array, Kept]:
    """`cells.kept` as a kernel."""
    return _batched(cell, "kept")(inputs, W, b)


def back(cell: RecurrentCell, dh: Array, seen: Kept, W: Array) -> tuple[Array, Array]:
    """`cells.back` as a kernel."""
    return _batched(cell, "back")(dh, seen, W)


@functools.cache
def _batched(cell: RecurrentCell, name: str) -> Any:
    launch = {"last": _last, "kept": _kept, "back": _back}[name]
    return one_launch(functools.partial(launch, cell))


def _last(cell: RecurrentCell, inputs: CellInputs, W: Array, b: Array) -> Array:
    B, _, m = inputs.bits.shape
    shapes = [(B, m, W.shape[1])]
    return _ahead(cell, keep=False, shapes=shapes, inputs=inputs, W=W, b=b)[0]


def _kept(cell: RecurrentCell, inputs: CellInputs, W: Array, b: Array) -> tuple[Array, Kept]:
    (B, T, m), (hidden, wide) = inputs.bits.shape, W.shape[1:]
    tokens = ((B, T, m, each) for each in (hidden + 2, wide, hidden))
    shapes = [(B, m, hidden), *tokens]
    end, *seen = _ahead(cell, keep=True, shapes=shapes, inputs=inputs, W=W, b=b)
    return end, Kept(*seen)


def _ahead(
    cell: RecurrentCell, *, keep: bool, shapes: Any, inputs: CellInputs, W: Array, b: Array
) -> Any:
    hidden, wide = W.shape[1:]
    shared = hidden * wide + 2 * _ROWS * hidden
    source = _ptx(cell.name, hidden, keep)
    return _launch(source, "ahead", shapes, [*inputs, W, b], inputs.bits.shape, hidden, shared)


def _back(cell: RecurrentCell, dh: Array, seen: Kept, W: Array) -> tuple[Array, Array]:
    (B, T, m), (hidden, wide) = seen.rows.shape[:3], W.shape[1:]
    shapes = [(B, T, m, wide), *([] if cell.name == "lstm" else [(B, T, m, hidden)])]
    shared = hidden * wide + wide * (_ROWS + 4) + _PARTS * _ROWS * hidden
    source = _ptx(cell.name, hidden, True)
    du, *da = _launch(source, "back", shapes, [dh, *seen, W], (B, T, m), hidden, shared)
    return du, da[0] if da else du[..., -hidden:]


def _launch(
    source: str,
    name: str,
    shapes: Sequence[tuple[int, ...]],
    arrays: list[Array],
    sizes: tuple[int, ...],
    hidden: int,
    shared: int,
) -> list[Array]:
    """A block of threads for every 32 examples of every model; shared: floats of its memory."""
    B, T, m = sizes
    dimensions = {"grid_x": -(-m // _ROWS), "grid_y": B, "grid_z": 1, "block_y": 1, "block_z": 1}
    dimensions |= {"block_x": hidden * (_ROWS // _EACH), "shared_mem_bytes": 4 * shared}
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    call = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", results)
    attributes = {key: np.int32(value) for key, value in dimensions.items()}
    lengths = jnp.array([T, m], jnp.int32)
    found = call(*arrays, lengths, name=name, kernel_type="ptx", kernel_data=source, **attributes)
    return list(found)
