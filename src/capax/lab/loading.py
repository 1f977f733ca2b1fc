"""What answers need is loaded while the page opens, by one thread at a time.

Python may hand out a half-loaded module where two threads load a package and a module of it at
once: the lock keeps them apart. Nobody loads ahead of time while a page is being sent, which
would take the processor from it.
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
    "bounds": ("capax.capacity.certificates.bounding", "capax.capacity.weights.plain_norms"),
    "runs": ("capax.training.one_model",),
    "laws": _LAWS,
    "reference": _LAWS,
    "upload": (*_LAWS, "capax.lab.uploads"),
    "freeze": (*_COMPILE, *_LAWS, "capax.training.one_model", "capax.lab.frozen_page"),
}
"""What a question needs besides the questions themselves."""
_FIRST = ("numpy", "pydantic", "jax", "equinox", "capax.lab.views.questions")
_GLANCE = 0.02  # seconds between two looks whether a page is being sent
_LOCK = threading.RLock()
_WANTED = threading.Event()


def load(part: str) -> None:
    """Load what a question needs; at once where it is loaded already."""
    _WANTED.set()
    with _LOCK:
        for name in (_FIRST[-1], *PARTS.get(part, ())):
            importlib.import_module(name)


def load_meanwhile(is_quiet: Callable[[], bool]) -> None:
    """Load everything in order of its use, while no page is sent or as soon as a question waits."""
    for name in dict.fromkeys([*_FIRST, *(name for names in PARTS.values() for name in names)]):
        while not (is_quiet() or _WANTED.is_set()):
            time.sleep(_GLANCE)
        with _LOCK:
            importlib.import_module(name)
