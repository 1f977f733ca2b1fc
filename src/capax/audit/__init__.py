"""Audit: what the attention heads of a real checkpoint can hold, and what they do.

`reading` opens files, `layouts` knows the names of weights, `heads` measures them, `text` runs the
model. The folder can be called: `capax.audit(path)` is `capax.audit.auditing.audit(path)`.
"""

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A module that is called like the function it is about."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from capax.audit.auditing import audit

        return audit(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
