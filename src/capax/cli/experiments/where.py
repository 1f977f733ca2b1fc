"""Where an experiment is trained: on this machine or on a Ray cluster."""

from enum import StrEnum
from typing import Annotated

import typer

from capax.errors import InputError


class Where(StrEnum):
    """Where the training runs."""

    here = "here"
    ray = "ray"


On = Annotated[Where, typer.Option(help="Train here or on a Ray cluster.")]
Address = Annotated[
    str | None, typer.Option(help="Ray cluster to join (`auto`); a local one by default.")
]

PartOfGpu = Annotated[
    float, typer.Option("--gpus", help="With --on ray: part of a GPU that a task asks for.")
]


def check_address(on: Where, address: str | None) -> None:
    """Raise `InputError` for an address without --on ray."""
    if address is not None and on is not Where.ray:
        raise InputError("--address: needs --on ray as well")
