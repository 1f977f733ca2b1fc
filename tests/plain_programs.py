"""Programs of the tests: they run for milliseconds and compile for seconds."""

import os
import shutil
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import jax
from jax._src import compilation_cache
from jax._src.interpreters import mlir
from jax._src.lru_cache import _CACHE_SUFFIX, LRUCache

JAX_CONTEXT, JAX_PUT = mlir.make_ir_context, LRUCache.put  # as JAX has them


def plain_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit` without LLVM's optimisations, in about half the time; on a GPU as it comes."""
    if jax.config.jax_platforms != "cpu":  # to ask for the backend would start it
        return jax.jit(function)
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def share_contexts(each: int = 100) -> None:
    """Lower `each` programs in one MLIR context; then make a new one, as constants stay in the old.

    JAX makes a context with all its dialects for every program: 7 of the 27 ms that an addition of
    two arrays takes until it runs (JAX 0.10.2, one Neoverse N1, November 2026). A JAX that makes
    contexts fast needs no sharing: `test_plain_programs.py` says when.
    """
    uses, context = count(), None

    def shared() -> Any:
        nonlocal context
        if next(uses) % each == 0:
            context = JAX_CONTEXT()
        return context

    mlir.make_ir_context = shared


MOST_BYTES = 500 << 20  # kept programs; all tests together compile 92 MB


def forget_many(folder: Path) -> None:
    """Empty the folder of compiled programs when it has grown by several versions of the code."""
    total = 0
    for file in folder.glob("*"):
        with suppress(FileNotFoundError):  # another session gives its new programs their names
            total += file.stat().st_size
    if total > MOST_BYTES:
        shutil.rmtree(folder, ignore_errors=True)


def write_whole() -> None:
    """Programs enter the shared folder whole: another worker may read them at any time.

    JAX writes in place (0.10.2, November 2026), and warns where it reads a half. They are stored as
    they are, in zlib's own form: to make them smaller takes 2 % of the tests.
    """

    def put(cache: Any, key: str, value: bytes) -> None:
        path = Path(str(cache.path), key + _CACHE_SUFFIX)
        if not path.exists():
            part = path.with_name(f"{key}.{os.getpid()}.{threading.get_ident()}")
            part.write_bytes(value)
            part.replace(path)

    LRUCache.put = put  # type: ignore[method-assign]
    if not (compilation_cache.zstd or compilation_cache.zstandard):
        compilation_cache.compress_executable = lambda program: zlib.compress(program, 0)
