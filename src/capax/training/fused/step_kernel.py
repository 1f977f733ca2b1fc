"""The kernel of the fused step: its source in `cuda/`, its PTX, and its call from JAX.

XLA runs PTX given in a custom call (`__gpu$xla.gpu.ptx`) like a kernel of its own, also inside a
CUDA graph. Parameters and moments are updated in place: outputs alias inputs.
"""

import functools
import lzma
import threading
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

SHIPPED_BY = (13, 0)  # the CUDA version of the PTX in `ptx/`; older ones cannot read it
_one_compiles = threading.Lock()

Leaves = list[Float32[Array, "B ..."]]  # parameter, first and second moment of every leaf


def ptx(spec: TransformerSpec, rule: OptimiserSpec) -> str:
    """The kernel for models of `spec`, the same for every T, under `rule`."""
    return _compiled(macros_of(spec, rule))


def macros_of(spec: TransformerSpec, rule: OptimiserSpec) -> tuple[str, ...]:
    """What the source leaves open."""
    macros = {
        "HIDDEN": spec.mlp_width,
        "SCALE": f"{float(attention_scale(spec.head_width, spec.scale))!r}f",
        "EPSILON": f"{LAYER_NORM_EPSILON!r}f",
        "BETA1": repr(rule.b1),
        "BETA2": repr(rule.b2),
        "ADAM_EPSILON": f"{rule.eps!r}f",
        "SHARED_BYTES": _SHARED_BYTES,
    }
    return tuple(f"-D{name}={value}" for name, value in macros.items())


def _compiled(macros: tuple[str, ...]) -> str:
    """PTX of `cuda/`; compiled once, also when several threads ask, then kept on disk."""
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
    """`step.cu`, what it includes by name, and the options of the compiler."""
    folder = resources.files("capax.training.fused") / "cuda"
    files = {entry.name: entry.read_text() for entry in folder.iterdir()}
    return files.pop("step.cu"), files, ["--gpu-architecture=compute_90", "--std=c++17", *macros]


def _shipped(name: str) -> str | None:
    """PTX that travels with the package, of this very source, where the machine can read it.

    It saves the six seconds of NVRTC at the start of a job. `benchmarks/ship_kernel.py` makes it.
    """
    file = resources.files("capax.training.fused") / "ptx" / f"{name}.xz"
    if not file.is_file() or version() < SHIPPED_BY:
        return None
    return lzma.decompress(file.read_bytes()).decode()


def _scratch_floats(m: int, hidden: int) -> int:
    """Device memory per model, as `step.cu` lays it out."""
    sums = (-(-m // _BLOCK) + 1) * _BLOCK * (WIDTH + HEADS)
    partial = 2 * WIDTH * hidden + WIDTH**2 if m > _BLOCK else 0
    return WIDTH**2 + (WIDTH + HEADS) * WIDTH + hidden + sums + partial


def launch(
    source: str,
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
    scratch = _scratch_floats(m, hidden)
    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    shapes.append(jax.ShapeDtypeStruct((B, scratch), jnp.float32))
    sizes = jnp.array([m, T, scratch], jnp.int32)
    dimensions = {"grid_x": B, "grid_y": 1, "grid_z": 1, "block_y": 1, "block_z": 1}
    dimensions |= {"block_x": _THREADS, "shared_mem_bytes": _SHARED_BYTES}
    call = jax.ffi.ffi_call(
        "__gpu$xla.gpu.ptx",
        shapes,
        input_output_aliases={i: i for i in range(len(leaves))},
    )
    attributes = {name: np.int32(value) for name, value in dimensions.items()}
    new = call(
        *(*leaves, words, y, weight, rates, sizes),
        name="step",
        kernel_type="ptx",
        kernel_data=source,
        **attributes,
    )
    return list(new[:-1])
