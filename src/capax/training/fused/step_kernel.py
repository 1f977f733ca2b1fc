"""The kernel of the fused step: its source in `cuda/`, its PTX, and its call from JAX.

XLA runs PTX given in a custom call (`__gpu$xla.gpu.ptx`) like a kernel of its own, also inside a
CUDA graph. Parameters and moments are updated in place: outputs alias inputs. Many positions are
cut into pieces, a step is four launches, and a block of threads is a piece of a model: with few
models and long inputs, one block for each model would leave most of the device idle.
"""

import functools
import lzma
import threading
from collections.abc import Callable, Sequence
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, UInt32

from capax.attention.block import LAYER_NORM_EPSILON
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import TransformerSpec
from capax.training.fused.nvrtc import identity, kept_ptx, version
from capax.training.specs.trial_specs import OptimiserSpec

WIDTH, HEADS = 64, 16  # the model width and the number of heads that the kernel is written for
_THREADS = 256
_SHARED_BYTES = 112 * 1024  # two blocks share the 228 KB of a multiprocessor
_BLOCK = 64  # examples at a time
_CHUNK = 64  # positions at a time
_KEPT = 4096  # floats of a model between the parts of a step
# Approximate positions of a piece; up to two are the work of one block. Tensor cores truncate sums
# instead of rounding them: errors grow with the number of terms, so pieces are short.
PIECE = 2048
PARTS = (1, 2, 3, 4)  # the first and the third by piece, the others by model

SHIPPED_BY = (13, 0)  # the CUDA version of the PTX in `ptx/`; older ones cannot read it
_one_compiles = threading.Lock()

_INPUTS = 5  # besides the leaves: words, y, weights, rates, sizes

Leaves = list[Float32[Array, "B ..."]]  # parameter, first and second moment of every leaf


def pieces(T: int) -> tuple[int, int]:
    """The number of pieces of T positions, and the positions of each piece but the last. It depends
    on T alone, so that a run does not depend on the number of models trained with it."""
    if T <= 2 * PIECE:
        return 1, T
    each = -(-T // (_CHUNK * -(-T // PIECE))) * _CHUNK
    return -(-T // each), each


def shortest(T: int) -> int:
    """The shortest inputs that are trained by the same kernels as inputs of length T."""
    return 1 if pieces(T)[0] == 1 else 2 * PIECE + 1


def ptx(spec: TransformerSpec, rule: OptimiserSpec) -> tuple[str, ...]:
    """The kernel for models of `spec` under `rule`, or the parts of a step for long T."""
    parts = (0,) if pieces(spec.T)[0] == 1 else PARTS
    return tuple(_compiled(macros_of(spec, rule, part)) for part in parts)


def macros_of(spec: TransformerSpec, rule: OptimiserSpec, part: int = 0) -> tuple[str, ...]:
    """The macros that the source needs; part: of a step, or 0 for all of it."""
    macros = {
        "HIDDEN": spec.mlp_width,
        "SCALE": f"{float(attention_scale(spec.head_width, spec.scale))!r}f",
        "EPSILON": f"{LAYER_NORM_EPSILON!r}f",
        "BETA1": repr(rule.b1),
        "BETA2": repr(rule.b2),
        "ADAM_EPSILON": f"{rule.eps!r}f",
        "SHARED_BYTES": _SHARED_BYTES,
        "PART": part,
    }
    return tuple(f"-D{name}={value}" for name, value in macros.items())


def _compiled(macros: tuple[str, ...]) -> str:
    """PTX of `cuda/`; compiled once, also for several threads, then stored on disk."""
    with _one_compiles:
        return _compiled_once(macros)


@functools.cache
def _compiled_once(macros: tuple[str, ...]) -> str:
    source, files, options = whole_source(macros)
    name = f"{identity(source, files, options)}.ptx"
    text = _shipped(name)
    if text is not None:
        return text
    return kept_ptx(source, files, options)


def whole_source(macros: tuple[str, ...]) -> tuple[str, dict[str, str], list[str]]:
    """`step.cu`, its includes by name, and the options of the compiler."""
    folder = resources.files("capax.training.fused") / "cuda"
    files = {entry.name: entry.read_text() for entry in folder.iterdir()}
    return files.pop("step.cu"), files, ["--gpu-architecture=compute_90", "--std=c++17", *macros]


def _shipped(name: str) -> str | None:
    """PTX of exactly this source in the package, if the machine can read it.

    It saves the six seconds of NVRTC at the start of a job. `benchmarks/ship_kernel.py` makes it.
    """
    file = resources.files("capax.training.fused") / "ptx" / f"{name}.xz"
    if not file.is_file() or version() < SHIPPED_BY:
        return None
    return lzma.decompress(file.read_bytes()).decode()


def _scratch_floats(m: int, hidden: int, count: int) -> int:
    """Device memory per model, as `step.cu` lays it out."""
    sums = (-(-m // _BLOCK) + 1) * _BLOCK * (WIDTH + HEADS)
    partial = 2 * WIDTH * hidden + WIDTH**2 if m > _BLOCK else 0
    apart = _KEPT + count * (sums + HEADS) if count > 1 else 0
    return WIDTH**2 + (WIDTH + HEADS) * WIDTH + hidden + sums + apart + partial


def launch(
    sources: tuple[str, ...],
    hidden: int,
    T: int,
    leaves: Leaves,
    words: UInt32[Array, "B m W"],
    y: Float32[Array, "B m"],
    weight: Float32[Array, "B m"],
    rates: Float32[Array, "B 4"],
) -> Leaves:
    """One step of B models; `rates` as in `step.cu`: both bias corrections, rate, decay."""
    B, m = y.shape
    count, each = pieces(T)
    floats = _scratch_floats(m, hidden, count)
    sizes = jnp.array([m, T, floats, count, each], jnp.int32)
    scratch: Leaves = []
    for i, source in enumerate(sources):
        grid = (count, B) if len(sources) > 1 and i % 2 == 0 else (B, 1)
        call = _kernel(source, grid, leaves, (B, floats), bool(scratch))
        *leaves, last = call(*leaves, words, y, weight, rates, sizes, *scratch)
        scratch = [last]
    return leaves


def _kernel(
    source: str, grid: tuple[int, int], leaves: Leaves, scratch: tuple[int, int], goes_on: bool
) -> Callable[..., Sequence[Array]]:
    """The call of one launch; goes_on: scratch memory continues from the launch before."""
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    shapes.append(jax.ShapeDtypeStruct(scratch, jnp.float32))
    same = {i: i for i in range(len(leaves))}
    if goes_on:
        same[len(leaves) + _INPUTS] = len(leaves)
    call = jax.ffi.ffi_call("__gpu$xla.gpu.ptx", shapes, input_output_aliases=same)
    dimensions = {"grid_x": grid[0], "grid_y": grid[1], "grid_z": 1, "block_x": _THREADS}
    dimensions |= {"block_y": 1, "block_z": 1, "shared_mem_bytes": _SHARED_BYTES}
    attributes = {name: np.int32(value) for name, value in dimensions.items()}
    named = {"name": "step", "kernel_type": "ptx", "kernel_data": source}
    return functools.partial(call, **named, **attributes)
