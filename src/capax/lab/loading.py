"""Imports that answers need, made while the page opens, by one thread at a time.

Python may return a half-loaded module when two threads import a package and a module of it at the
same time; a lock prevents this. While a page is being sent nothing is imported ahead of time,
because that would slow the page down.
"""

import importlib
import threading
import time
from collections.abc import Callable

_COMPILE = ("capax.compiler", "capax.lab.views.changed_head")
_LAWS = ("capax.cards.answers.reference_card", "capax.analysis.reference.threshold_curves")
PARTS: dict[str, tuple[str, ...]] = {
    "compile": _COMPILE,
    "ladder": _COMPILE,
    "break": _COMPILE,
    "weights": _COMPILE,
    "bounds": ("capax.capacity.routes.bounding", "capax.capacity.weights.plain_norms"),
    "runs": ("capax.training.one_model",),
    "laws": _LAWS,
    "reference": _LAWS,
    "upload": (*_LAWS, "capax.lab.uploads"),
    "freeze": (*_COMPILE, *_LAWS, "capax.training.one_model", "capax.lab.frozen_page"),
}
"""Modules that a question needs besides its own."""
_FIRST = ("numpy", "pydantic", "jax", "equinox", "capax.lab.views.questions")
_GLANCE = 0.02  # seconds between two checks whether a page is being sent
_LOCK = threading.RLock()
_WANTED = threading.Event()


def load(part: str) -> None:
    """Import the modules that a question needs; returns at once if they are loaded."""
    _WANTED.set()
    with _LOCK:
        for name in (_FIRST[-1], *PARTS.get(part, ())):
            importlib.import_module(name)


def load_meanwhile(is_quiet: Callable[[], bool]) -> None:
    """Import all modules in the order of use, when no page is being sent or a question waits."""
    for name in dict.fromkeys([*_FIRST, *(name for names in PARTS.values() for name in names)]):
        while not (is_quiet() or _WANTED.is_set()):
            time.sleep(_GLANCE)
        with _LOCK:
            importlib.import_module(name)
