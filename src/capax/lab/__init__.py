"""The lab: pages that show a head, a training run, laws and bounds while their numbers are changed.

`capax lab` serves four views on this machine (`app`, `guard`, `server`). Each view is a question
with a specification and an answer (`views`). Answers come from the functions of the commands: a
number on a page equals the number in `--json`. Between two answers the browser draws its own
numbers and marks them as drawn. Training runs in a separate process (`running`). The same views
exist in notebooks (`widgets`: `head`, `create`, `laws`, `bounds`) and as single files
(`frozen_page`). `exercises` has the exercises of the course; `mark(2, "answer.toml")` is
`capax exercise 2 answer.toml`.
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
    """Import on first use: only the widgets need `anywidget`."""
    if name not in _PLACES:
        raise AttributeError(f"module 'capax.lab' has no attribute {name!r}")
    return getattr(importlib.import_module(f"capax.lab.{_PLACES[name]}"), name)
