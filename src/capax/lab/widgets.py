"""The views in a notebook: `capax.lab.head("maj(x1,x5,x9)", T=50)` and three more.

A widget sends its questions to the kernel instead of the server and gets the same answers. Its
styles are in a shadow root and do not change the notebook.
"""

import base64
import binascii
import json
import threading
import time
from functools import lru_cache
from typing import Any

from capax.errors import CapaxError, InputError, require
from capax.foreign import printable_parts
from capax.lab.running.training_queue import TrainingQueue
from capax.lab.static_files import one_script, static_files
from capax.lab.views.questions import answer, question_of
from capax.plain_json import json_text

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise InputError(
        f"capax.lab: the package {missing.name} is not installed: pip install 'capax[lab]'"
    ) from None

POLL = 0.1  # seconds between two checks for new events of a run


class View(anywidget.AnyWidget):
    """One view. `state` is the part after the `?` in the address of the same page."""

    _esm = f"{one_script('widget.js')}\nexport default {{ render: lab.render }};\n"
    view = traitlets.Unicode().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    css = traitlets.Unicode().tag(sync=True)

    def __init__(self, view: str, **state: Any) -> None:
        texts = {name: str(value) for name, value in state.items() if value is not None}
        question_of(view, texts)  # an error appears in the notebook cell
        super().__init__(view=view, state=texts, css=_style())
        self.on_msg(self._asked)

    def _asked(self, widget: Any, message: Any, buffers: Any) -> None:
        del widget, buffers
        number = message.get("id") if isinstance(message, dict) else None
        try:
            self.send({"id": number, "answer": _plain(self._answer(message))})
        except CapaxError as error:
            self.send({"id": number, "error": str(error)})

    def _answer(self, message: dict[str, Any]) -> Any:
        from capax.lab.uploads import read_upload
        from capax.lab.views.create_view import RunQuestion

        what = message.get("what")
        if what == "ask":
            return answer(message["name"], message["question"])
        if what == "start":
            return _queue().start(RunQuestion(**message["question"]))
        if what == "steer":
            _queue().steer(message["run"], message["fields"])
            return {}
        if what == "follow":
            run = message["run"]
            threading.Thread(target=self._follow, args=(run,), daemon=True).start()
            return {}
        require(what == "upload", "message", "a question of the page", what)
        try:
            content = base64.b64decode(message["content"], validate=True)
        except binascii.Error:
            raise InputError("upload: the content is not base64") from None
        return read_upload(message["kind"], content, message["name"])

    def _follow(self, run: str) -> None:
        """Send the events of a run until it has ended."""
        number = 0
        while True:
            for event in (_queue().events(run) or [])[number:]:
                self.send({"run": run, "number": number, "event": _plain(event)})
                number += 1
                if event["kind"] == "ended":
                    return
            time.sleep(POLL)


def head(formula: str, T: int = 50, **state: Any) -> View:
    """The view Compile: a formula as an attention head.

    Examples:
        >>> import capax.lab
        >>> capax.lab.head("maj(x1,x5,x9)", T=50).state["T"]
        '50'
    """
    return View("compile", formula=formula, T=T, **state)


def create(formula: str = "and3", T: int = 50, m: int = 200, m2: int = 30, **state: Any) -> View:
    """The view Create: two runs, with m and with m2 examples."""
    return View("create", formula=formula, T=T, m=m, m2=m2, **state)


def laws(target: str = "and3", **state: Any) -> View:
    """The view Laws: how many examples each learner needs."""
    return View("laws", target=target, **state)


def bounds(**state: Any) -> View:
    """The view Bounds: `W_QK`, `v`, `T`, `m`, `d`, `margin`, `delta` and `target` as keywords."""
    return View("bounds", **state)


@lru_cache(maxsize=1)
def _queue() -> TrainingQueue:
    """One queue for all widgets of this kernel; its process ends with the kernel."""
    return TrainingQueue()


def _style() -> str:
    """The style sheets of the pages, for a shadow root."""
    text = "".join(static_files()[name][1] for name in ("page.css", "lab.css"))
    return text.replace(":root", ":host")


def _plain(payload: Any) -> Any:
    return printable_parts(json.loads(json_text(payload)))
