"""Where an experiment is trained: on this machine or on a Ray cluster."""

import os
import sys
from contextlib import suppress
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


def ready_for(on: Where, address: str | None) -> None:
    """Raise `InputError` for an address without --on ray; separate Ray's output from results."""
    if address is not None and on is not Where.ray:
        raise InputError("--address: needs --on ray as well")
    if on is Where.ray:
        results_alone()


def results_alone() -> None:
    """From now on standard output is for Python's output; other writers get standard error.

    Threads of Ray outside Python report dead nodes at any time.
    """
    with suppress(OSError, ValueError):  # a redirected standard output is not changed
        if sys.stdout.fileno() == 1:
            sys.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            sys.stdout = open(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)  # noqa: PTH123, SIM115
