"""Compiled programs, kept per (program, device, width), and compiled ahead in threads on request.

The functions of a program are compiled in parallel, and programs in the order of their requests, so
that the first can train while the others are still being compiled.
"""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax

from capax.training.programs.program import Program
from capax.training.programs.program_compiler import GROUP, ProgramCompiler


@dataclass(frozen=True)
class Executables:
    """draw: parameters from keys; write: new runs into slots (width > 1); advance: one chunk for
    all slots; examine: the whole pool, None if `advance` examines it (`Program.looks_itself`);
    progress: the measures of hidden progress, on request."""

    draw: Any
    write: Any
    advance: Any
    examine: Any
    progress: Any = None


_lock = threading.Lock()
_numbers = itertools.count()
_kept: dict[Any, Future[Any]] = {}


def executables(
    program: Program,
    device: jax.Device,
    width: int,
    options: dict[str, Any],
    progress: bool = False,
) -> Executables:
    """Compile once per process; later callers, also in other threads, wait for the same result."""
    compiler = ProgramCompiler(program, device, width, options, next(_numbers))
    key = (device, tuple(sorted(options.items())))
    group = 1 if width == 1 else GROUP
    parts: dict[str, tuple[Any, Callable[[], Any]]] = {  # the longest to compile first
        name: ((name, program, width, *key), getattr(compiler, name))
        for name in ("advance", "examine", "write", *(("progress",) if progress else ()))
    }
    parts["draw"] = ("draw", program.path, program.rule, group, *key), compiler.draw
    with ThreadPoolExecutor(len(parts), thread_name_prefix="compile") as pool:
        made = {name: pool.submit(_once, *part) for name, part in parts.items()}
    return Executables(**{name: future.result() for name, future in made.items()})


def _once(key: Any, make: Callable[[], Any]) -> Any:
    with _lock:
        future = _kept.get(key)
        mine = future is None
        if future is None:
            future = _kept[key] = Future()
    if mine:
        try:
            future.set_result(make())
        except BaseException as error:
            with _lock:
                del _kept[key]
            future.set_exception(error)
    return future.result()
