"""`capax new`: a commented experiment file to start from."""

from pathlib import Path
from typing import Annotated

import typer

from capax.cli.speaking.output import JsonFlag, emit
from capax.errors import InputError, require

NewFile = Annotated[Path, typer.Argument(help="Name of the file to write, ending in .toml.")]


def new(path: NewFile, json: JsonFlag = False) -> None:
    """Write an experiment file that runs as it is, with every field and its meaning as a comment.

    Example: `capax new experiment.toml`
    """
    require(path.suffix == ".toml", "PATH", "a name ending in .toml", path.name)
    if path.exists():
        raise InputError(f"{path}: exists already; choose another name")
    from capax.files import write_atomically
    from capax.sweep.experiments.template import template

    write_atomically(path, lambda file: file.write(template(path.name).encode()))
    payload = {"file": str(path), "run": f"capax sweep {path}"}
    emit(payload, json, lambda console: console.print(f"{path}: run it with `{payload['run']}`"))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("new")(new)
