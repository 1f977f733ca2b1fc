"""Options of XLA's compilers, each beside its reason, the day it was seen and the version.

They only change speed and rounding, or avoid a fault. `tests/training/test_xla_options.py` fails
when the installed JAX is newer than the last version that an option was checked with: then try
without the option, and update or remove its entry.
"""

import functools
import os
import platform
from typing import Any, NamedTuple

import jax


class XlaOption(NamedTuple):
    """An option and its reason; `needed`: a compiler without this option is an error."""

    name: str
    value: Any
    reason: str
    seen: str  # the day
    jax: str  # the newest version it was checked with
    needed: bool = False


GPU = (
    XlaOption(
        "xla_gpu_enable_triton_gemm",
        False,
        "to generate products and time them all takes twice as long to compile and gains nothing",
        seen="2026-11-15",
        jax="0.11.2",
        needed=True,
    ),
    XlaOption(
        "xla_gpu_autotune_level",
        0,
        "what autotuning chooses, hence the rounding, differs from one compilation to the next",
        seen="2026-11-15",
        jax="0.11.2",
        needed=True,
    ),
    XlaOption(
        "xla_gpu_command_buffer_scheduling_mode",
        "CONCURRENT",
        "kernels of a CUDA graph that do not wait for each other may run side by side",
        seen="2026-11-15",
        jax="0.11.2",
    ),
    XlaOption(
        "xla_gpu_dot_merger_threshold_mb",
        0,
        "products that share a factor, merged into one, came out wrong on an H200: 3 heads of "
        "width 2, training and validation set, 58 of 512 answers",
        seen="2026-11-17",
        jax="0.11.2",
    ),
)
GPU_LONG = XlaOption(
    "xla_gpu_graph_min_graph_size",
    1 << 20,
    "long kernels take a fifth longer in CUDA graphs (eight models at T = 100 000)",
    seen="2026-11-16",
    jax="0.11.2",
)
CPU = (
    XlaOption(
        "xla_cpu_multi_thread_eigen",
        False,
        "one thread per program: the other cores have programs of their own",
        seen="2026-11-15",
        jax="0.10.2",
        needed=True,
    ),
)
CPU_DRAW = XlaOption(
    "xla_cpu_use_fusion_emitters",
    False,
    "the program that draws parameters runs once per run, so it should compile fast: the older "
    "emitters take half as long, and draw the same bits",
    seen="2026-11-16",
    jax="0.10.2",
)
CPU_SMALL = (
    XlaOption(
        "xla_backend_optimization_level",
        1,
        "a small network with gradients in pieces trains for half a minute: LLVM's level 1 makes "
        "its program in four fifths of the time, and a step takes at most 6 % longer (deep_sets, "
        "mlp at T = 50); a step of a CNN would take a quarter longer",
        seen="2026-11-18",
        jax="0.10.2",
    ),
    XlaOption(
        "xla_cpu_parallel_codegen_split_count",
        1,
        "a process with one core compiles no parts side by side: as one part deep_sets takes 7.0 s "
        "instead of 9.0 on a core of a Xeon, linear_attention 9.5 instead of 12.2, on a Neoverse "
        "as long",
        seen="2026-11-18",
        jax="0.10.2",
    ),
)
CPU_PRODUCTS_X86 = (
    XlaOption(
        "xla_cpu_experimental_ynn_fusion_type",
        "",
        "LLVM and Eigen compute products and sums of small networks, and products of 200 x 200 of "
        "two layers, sooner than the library that XLA calls (99 to 111 instead of 78 Gflop/s on a "
        "core); steps of LSTM and GRU take a tenth more time without it, so they keep it",
        seen="2026-11-19",
        jax="0.10.2",
    ),
)
CPU_PIECES_X86 = (
    XlaOption(
        "xla_cpu_prefer_vector_width",
        512,
        "LLVM's loops use 256 of the 512 bits of a vector by default: with all of them steps of "
        "Mixer, LSTM and GRU take 4 to 9 % less time, those of small networks without XLA's "
        "library up to 18 %, and the others as much as before (two Xeons, T = 20 to 400)",
        seen="2026-11-19",
        jax="0.10.2",
    ),
)
REFUSED = XlaOption(
    "xla_cpu_copy_insertion_use_region_analysis",
    True,
    "not used: it saves a tenth of a step, and lost parts of sums that a loop scatters into lanes",
    seen="2026-11-15",
    jax="0.10.2",
)
_ON_CPU = (*CPU, CPU_DRAW, *CPU_PIECES_X86, *CPU_SMALL, *CPU_PRODUCTS_X86)
ALL_OPTIONS = (*GPU, GPU_LONG, *_ON_CPU, REFUSED)


def options_of(backend: str) -> dict[str, Any]:
    """Options of every program on this backend of JAX."""
    chosen = {"gpu": GPU, "cpu": CPU}.get(backend, ())
    return {o.name: o.value for o in chosen if o.needed or is_known(o.name, o.value)}


def launched_singly() -> dict[str, Any]:
    """Further options of a program with long kernels, on a GPU."""
    return _if_known(GPU_LONG)


def drawn_simply() -> dict[str, Any]:
    """Further options of the program that draws parameters, on a CPU."""
    return _if_known(CPU_DRAW)


def in_pieces(*, small: bool, library: bool) -> dict[str, Any]:
    """Further options of a network with gradients in pieces, on a CPU; library: XLA's, for its
    products."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    chosen = (*CPU_PIECES_X86, *(() if library else CPU_PRODUCTS_X86)) if x86 else ()
    chosen += CPU_SMALL if small else ()
    return {name: value for o in chosen for name, value in _if_known(o).items()}


def _if_known(option: XlaOption) -> dict[str, Any]:
    """Nothing if this XLA has no such option, or if the user has set it in XLA_FLAGS."""
    own = {flag.lstrip("-").partition("=")[0] for flag in os.environ.get("XLA_FLAGS", "").split()}
    if option.name in own or not is_known(option.name, option.value):
        return {}
    return {option.name: option.value}


@functools.cache
def is_known(option: str, value: Any) -> bool:
    """Whether the installed XLA has this compiler option; its options come and go."""
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options={option: value})
    except jax.errors.JaxRuntimeError:
        return False
    return True
