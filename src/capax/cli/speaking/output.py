"""Output of the commands: results on stdout, other output on stderr, JSON on request."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from capax.plain_json import json_text
from capax.terminal import Terminal

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and no other output there.")
]


def stderr() -> Terminal:
    """The console for progress, notes and errors."""
    return Terminal(stderr=True)


def stdout() -> Terminal:
    """The console for results."""
    return Terminal()


def note(text: str) -> None:
    """Print a remark on stderr."""
    stderr().print(f"note: {text}", style="dim")


def emit(payload: Any, as_json: bool, render: Callable[[Terminal], None]) -> None:
    """Print `payload` as JSON, or let `render` draw the same content for a person."""
    if as_json:
        typer.echo(json_text(payload, indent=2))
    else:
        render(stdout())
