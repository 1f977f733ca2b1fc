"""One view with its data as one file that works from the disk: no server, no network.

The page contains the answers to the questions of its state, and the numbers between which it
interpolates. Its security policy has the hashes of its only script and its only style sheet, so
that no other code runs.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from capax.foreign import script_json
from capax.lab.static_files import one_script, static_files
from capax.lab.views.addresses import VIEWS
from capax.lab.views.create_view import CreateQuestion
from capax.lab.views.questions import answer, question_of
from capax.plain_json import finite_json, plain

PATIENCE = 600.0  # seconds for the runs of a page that is written without a server


def frozen_page(view: str, state: Mapping[str, str], runs: Sequence[Mapping[str, Any]]) -> str:
    """The page as HTML; `runs` = question and events of the runs of the view Create."""
    style = "".join(static_files()[name][1] for name in ("page.css", "lab.css"))
    script = f'"use strict";\n{one_script("frozen.js")}'
    data = {
        "view": view,
        "state": dict(state),
        "answers": _answers(view, state),
        "recorded": list(runs),
    }
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>Capax: {VIEWS[VIEWS.index(view)]}</title>\n<style>{style}</style>\n</head>\n"
        '<body>\n<div id="lab"></div>\n<noscript>This page needs JavaScript.</noscript>\n'
        f'<script type="application/json" id="data">{script_json(_plain(data))}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def recorded_runs(state: Mapping[str, str]) -> list[dict[str, Any]]:
    """Train the runs of a state of the view Create; returns the records that a page replays."""
    from capax.lab.running.training_queue import TrainingQueue

    question = question_of("create", state)
    assert isinstance(question, CreateQuestion)
    with TrainingQueue() as queue:
        names = [queue.start(run) for run in question.runs()]
        for name in names:
            queue.wait(name, PATIENCE)
        return [queue.recorded(name) for name in names]


def _answers(view: str, state: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every answer that the page needs, with its question."""
    asked = question_of(view, state).model_dump()
    if view == "create":
        return []
    if view != "laws":
        names = ("compile", "ladder", "break") if view == "compile" else ("bounds",)
        found = [_answered(name, asked) for name in names]
        if view == "compile":  # the ladder depends neither on T nor on the changes
            found[1]["question"] = {k: asked[k] for k in ("formula", "encoding")}
        return found
    first = _answered("laws", asked)
    others = [a for a in first["answer"]["accuracies"] if a != asked["accuracy"]]
    parts = [first, *(_answered("laws", {**asked, "accuracy": a}) for a in others)]
    first["answer"]["targets"] = [asked["target"]]
    stores = [name for name in state.get("stores", "").split(",") if name]
    return parts + [_answered("reference", {"name": name}) for name in stores]


def _answered(name: str, question: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "question": question, "answer": answer(name, question)}


def _plain(data: Any) -> Any:
    """`data` with JSON's numbers and texts only."""
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    return finite_json(data) if isinstance(data, str | int | float | None) else plain(data)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
