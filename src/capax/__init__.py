"""Capax: what self-attention prefers to learn, how much data it needs, how much a head can hold.

Names are loaded on first use, so that `import capax` and `capax --help` stay quick.
"""

import importlib
from typing import Any

# public name -> module that defines it
_EXPORTS: dict[str, str] = {
    "CapaxError": "capax.errors",
    "InputError": "capax.errors",
    "SparseFunction": "capax.boolean.functions",
    "parse": "capax.boolean.parser",
    "TaskSpec": "capax.data.task",
    "draw_task": "capax.data.task",
    "compile": "capax.compiler.compiling",
    "verify": "capax.compiler.verifying",
    "decompile": "capax.decompile.decompiling",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'capax' has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_EXPORTS]
