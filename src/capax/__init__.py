"""Capax: what self-attention prefers to learn, how much data it needs, how much a head can hold.

`import capax` is the product: each name below is loaded on first use, so importing takes no time.
The folders (`capax.attention`, `capax.capacity`, ..) are there too, for those who build on them.
"""

import importlib
from typing import TYPE_CHECKING, Any

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
_FOLDERS = (
    "boolean", "data", "attention", "capacity", "compiler", "training", "learners", "decompile",
    "sweep", "analysis", "cards", "audit", "figures", "report", "cli",
)  # fmt: skip

__all__ = sorted(_DOORS)


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return opened(_DOORS[name])
    if name in _FOLDERS:
        return importlib.import_module(f"capax.{name}")
    raise AttributeError(f"module 'capax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
