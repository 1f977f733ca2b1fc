"""Output of the commands: results on stdout, everything else on stderr, JSON on request."""

import json
import math
from collections.abc import Callable
from typing import Annotated, Any

import typer

from capax.terminal import Terminal

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else there.")
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
        typer.echo(json.dumps(_finite(payload), indent=2, allow_nan=False, default=plain))
    else:
        render(stdout())


def _finite(payload: Any) -> Any:
    """JSON has no infinity and no NaN: such numbers become null."""
    if isinstance(payload, float):
        return payload if math.isfinite(payload) else None
    if isinstance(payload, dict):
        return {key: _finite(value) for key, value in payload.items()}
    if isinstance(payload, list | tuple):
        return [_finite(value) for value in payload]
    return _finite(plain(payload)) if hasattr(payload, "tolist") else payload


def plain(value: Any) -> Any:
    """NumPy and JAX scalars and arrays as plain Python; sets sorted; paths as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
