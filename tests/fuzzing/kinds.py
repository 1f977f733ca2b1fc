"""The kinds of cases, and how often each is drawn."""

from collections.abc import Callable
from random import Random

from fuzzing import (
    cards,
    checkpoints,
    commands,
    experiments,
    formulas,
    special_files,
    stores,
    tables,
    weights,
)
from fuzzing.case import Case

KINDS: dict[str, tuple[Callable[[Random], Case], int]] = {
    "formula": (formulas.case, 20),
    "experiment": (experiments.case, 20),
    "weights": (weights.case, 20),
    "points": (tables.point_case, 10),
    "data": (tables.data_case, 10),
    "store": (stores.case, 10),
    "command": (commands.case, 10),
    "checkpoint": (checkpoints.case, 15),
    "special": (special_files.case, 5),
    "card": (cards.case, 10),
}


def drawn(seed: int, only: str = "") -> Case:
    """The case of a number: the same on every machine."""
    random = Random(seed)
    names = [only] if only else list(KINDS)
    (name,) = random.choices(names, [KINDS[name][1] for name in names])
    return KINDS[name][0](random)
