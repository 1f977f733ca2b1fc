"""Where the real work would begin: a fuzzed command is stopped there, and nowhere earlier.

Replaced are the training of a job, of a single model and of a benchmark, the server of the lab, and
the two commands that write into the package itself. Everything before (reading, checking, planning,
opening stores) and after it (reading back, printing) is the real thing.
"""

import functools
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from capax.errors import InputError


def _no_outcomes(*_: Any, **__: Any) -> Iterator[Any]:
    return iter(())


@contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


def _stopped(*_: Any, **__: Any) -> Any:
    raise InputError("training: not in a fuzzed command")


@contextmanager
def seams() -> Iterator[None]:
    """Inside, no command trains anything or writes into the package."""
    import typer.main

    import capax.analysis.reference.reference_stores
    import capax.cards.answers.reference_card
    import capax.cards.measuring.run_card
    import capax.cli.machine.doctor
    import capax.lab.server
    import capax.sweep.running.cluster
    import capax.sweep.running.runner
    import capax.sweep.running.several
    import capax.training.one_model
    import capax.training.speed.benchmark

    built = functools.cache(typer.main.get_command)  # the same commands for every case
    from pathlib import Path

    with ExitStack() as stack:
        for owner, name, value in (
            (typer.main, "get_command", built),
            (capax.sweep.running.runner, "concurrently", _no_outcomes),
            (capax.sweep.running.runner, "preparing", _nothing),
            (capax.sweep.running.several, "concurrently", _stopped),
            (capax.sweep.running.several, "preparing", _nothing),
            (capax.sweep.running.cluster, "run_on_ray", _stopped),
            (capax.cards.measuring.run_card, "on_ray", _stopped),
            (sys.modules["capax.cards.card"], "mixed_row", _stopped),
            (capax.training.one_model, "train", _stopped),
            (capax.lab.server, "serve", _stopped),
            (capax.training.speed.benchmark, "benchmark", _stopped),
            (capax.cards.answers.reference_card, "write_reference", _nothing),
            (capax.analysis.reference.reference_stores, "FOLDER", Path("references")),
            (capax.analysis.reference.reference_stores, "OWN_FOLDER", Path("references")),
            (capax.cli.machine.doctor, "EXTRAS", {}),
        ):
            stack.enter_context(patch.object(owner, name, value))
        yield
