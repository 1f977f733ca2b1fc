"""The lab: pages that show a head, a training run, laws and bounds while their numbers are changed.

`capax lab` serves four views on this machine (`app`, `guard`, `server`). Each view is a question
with a specification and an answer (`compile_view`, `create_view`, `laws_view`, `bounds_view`);
`views` lists them. Answers come from the functions behind the commands: a number on a page is the
number of its `--json`. The browser draws numbers between two answers and marks them as drawn.
Training runs in a process of its own (`training_process`, `training_queue`, `live_run`). The same
views stand in notebooks (`widgets`: `head`, `create`, `laws`, `bounds`) and in single files
(`frozen_page`). `exercises` and `marking` are the exercises of the course.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capax.lab.widgets import bounds as bounds
    from capax.lab.widgets import create as create
    from capax.lab.widgets import head as head
    from capax.lab.widgets import laws as laws

_WIDGETS = ("head", "create", "laws", "bounds")


def __getattr__(name: str) -> Any:
    """The widgets are loaded on first use: they need `anywidget`, the server does not."""
    if name not in _WIDGETS:
        raise AttributeError(f"module 'capax.lab' has no attribute {name!r}")
    from capax.lab import widgets

    return getattr(widgets, name)
