"""The formula of a failed run, compared with the target of its task.

target              the formula is the target
too few bits        only bits of the target, not all of them
too many bits       all bits of the target, and others
wrong bits          some bits of the target, not all, and others
other bits          no bit of the target
another function    exactly the bits of the target, another function of them
constant            always the same answer
no short formula    no function of few bits agrees with the model on 95 % of inputs; where its
                    training labels are all right, the sample was memorised
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.data.examples import Examples
from capax.decompile.decompiled import Decompiled
from capax.decompile.decompiling import Effort, decompile

Kind = Literal[
    "target",
    "too few bits",
    "too many bits",
    "wrong bits",
    "other bits",
    "another function",
    "constant",
    "no short formula",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
QUICK = Effort(pairs=600, fillers=24, fresh=1500, cells=0)
FAITHFUL = 0.95
"""A formula that agrees less often than this does not describe the model."""


@dataclass(frozen=True)
class Anatomy:
    """The formula of one model, its relation to the target, and its agreement with the model.

    `shared`, `missing`, `extra`: number of target bits used, target bits missing, other bits.
    """

    kind: Kind
    formula: str
    agreement: float
    shared: int
    missing: int
    extra: int
    fits_training: bool | None


def classify(found: Decompiled, target: SparseFunction, data: Examples | None = None) -> Anatomy:
    """The formula of a model beside the target of its task; data: its training examples."""
    right, bits = set(target.relevant().support), set(found.support)
    counts = len(bits & right), len(right - bits), len(bits - right)
    kind: Kind
    if found.agreement.value < FAITHFUL:
        kind = "no short formula"
    elif not bits:
        kind = "constant" if right else _same_or_other(found, target)
    elif bits == right:
        kind = _same_or_other(found, target)
    else:
        kind = _by_bits(*counts)
    fits = None if data is None else bool((found.function(data.X) == data.y).all())
    return Anatomy(kind, found.formula.text, found.agreement.value, *counts, fits)


def quick_anatomy(
    model: Any, target: SparseFunction, *, p: float, data: Examples | None = None
) -> Anatomy:
    """`classify` with few questions and no proof, for the many models of a sweep."""
    return classify(decompile(model, p=p, effort=QUICK), target, data)


def tally(found: list[Anatomy]) -> list[tuple[Kind, int, str]]:
    """(kind, number, an example) for the kinds that occur, most frequent first."""
    rows = []
    for kind in KINDS:
        of_kind = [a for a in found if a.kind == kind]
        if of_kind:
            best = max(of_kind, key=lambda a: a.agreement)
            rows.append((kind, len(of_kind), best.formula))
    return sorted(rows, key=lambda row: -row[1])


def _by_bits(shared: int, missing: int, extra: int) -> Kind:
    if not shared:
        return "other bits"
    if not missing:
        return "too many bits"
    return "wrong bits" if extra else "too few bits"


def _same_or_other(found: Decompiled, target: SparseFunction) -> Kind:
    """Same bits: is it the same function of them?"""
    f, g = found.function.in_order(), target.relevant().in_order()
    return "target" if np.array_equal(f.table, g.table) else "another function"
