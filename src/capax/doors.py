"""Folders that can be called: `capax.sweep(...)` runs a sweep, `capax.sweep.spec` is a module.

Some verbs of the product are also names of its folders. Importing a folder binds its name in
`capax`, so the verb must live on the folder itself: a module whose calls go to one function.
"""

import importlib
import sys
from types import ModuleType
from typing import Any


class Door(ModuleType):
    """A module that is called like the function it stands for (`_door` = "module:function")."""

    _door: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return opened(self._door)(*arguments, **options)


def opened(door: str) -> Any:
    """The function or type behind "module:name", imported now."""
    module, _, name = door.partition(":")
    return getattr(importlib.import_module(module), name)


def open_door(module: str, door: str) -> None:
    """Make `module`, which is being imported, callable: its calls go to `door`."""
    folder = sys.modules[module]
    folder.__class__ = Door
    folder._door = door  # pyrefly: ignore[missing-attribute]
