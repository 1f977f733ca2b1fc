"""Packages that can be called: `capax.sweep(...)` runs a sweep, `capax.sweep.trial` is a module.

Four verbs of the product are also names of packages: sweep, audit, decompile and report. Python
binds a package to its name in `capax` whenever one of its modules is imported, so a function of the
same name would be replaced by `import capax.sweep.trial` anywhere in the program. Packages with
names of their own (`sweeps`, `audits`) would do without this file, but their modules are public:
experiments, guides and programs of users import them by their present names. So the package itself
passes calls on to the function. Type checkers see the plain function (`capax/__init__.py`).
"""

import importlib
import sys
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package whose calls go to one function (`_called` = "module:function")."""

    _called: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return resolved(self._called)(*arguments, **options)


def resolved(address: str) -> Any:
    """The function or type at "module:name", imported now."""
    module, _, name = address.partition(":")
    return getattr(importlib.import_module(module), name)


def make_callable(package: str, function: str) -> None:
    """Make `package`, which is being imported, callable: its calls go to `function`."""
    module = sys.modules[package]
    module.__class__ = CallablePackage
    module._called = function  # pyrefly: ignore[missing-attribute]
