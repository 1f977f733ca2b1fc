"""The lab: pages that show a head, a training run, laws and bounds while their numbers are changed.

`capax lab` serves four views on this machine (`app`, `guard`, `server`). Each view is a question
with a specification and an answer (`views`). Answers come from the functions behind the commands: a
number on a page is the number of its `--json`. The browser draws numbers between two answers and
marks them as drawn. Training runs in a process of its own (`running`). The same views stand in
notebooks (`widgets`: `head`, `create`, `laws`, `bounds`) and in single files (`frozen_page`).
`exercises` are those of the course; `mark(2, "answer.toml")` is `capax exercise 2 answer.toml`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capax.lab.exercises.marking import mark as mark
    from capax.lab.widgets import bounds as bounds
    from capax.lab.widgets import create as create
    from capax.lab.widgets import head as head
    from capax.lab.widgets import laws as laws

_PLACES = dict.fromkeys(("head", "create", "laws", "bounds"), "widgets")
_PLACES["mark"] = "exercises.marking"


def __getattr__(name: str) -> Any:
    """Loaded on first use: the widgets need `anywidget`, the server and the marks do not."""
    if name not in _PLACES:
        raise AttributeError(f"module 'capax.lab' has no attribute {name!r}")
    return getattr(importlib.import_module(f"capax.lab.{_PLACES[name]}"), name)
