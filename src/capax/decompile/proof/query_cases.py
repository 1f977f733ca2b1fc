"""The query of a one-layer network as cases: [CLS] is one case, a bit that asks is two.

A network without [CLS] reads its answer at a token that carries a bit itself, the first or the
last. At each of the two values of this bit the query is fixed and the other T - 1 bits are the
tokens: two networks of the form that is proved, and together all 2^T inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.decompile.proof.one_query_layer import OneQueryLayer


@dataclass(frozen=True)
class QueryCase:
    """The network at one value `bit` of the input `position` that asks; None: [CLS] asks."""

    layer: OneQueryLayer
    position: int | None = None
    bit: int = 0


@dataclass(frozen=True)
class LayerReading:
    """A model of another library in the form that is proved, and the meaning of its numbers.

    cases: one, or one for each value of the bit that asks. told: what was recognised, in words.
    as_logits: from the model's numbers to logits. logit_threshold: the same for the threshold.
    """

    cases: tuple[QueryCase, ...]
    told: str
    as_logits: Callable[[np.ndarray], np.ndarray]
    logit_threshold: Callable[[float], float]


def with_bit(X: np.ndarray, case: QueryCase) -> np.ndarray:
    """Inputs of all T bits from those of the tokens that do not ask."""
    X = np.asarray(X, np.uint8)
    return X if case.position is None else np.insert(X, case.position, case.bit, axis=1)


def restricted(f: SparseFunction, case: QueryCase) -> SparseFunction:
    """f on the other bits, at the value of the bit that asks."""
    at = case.position
    if at is None:
        return f
    rows, table = np.arange(len(f.table)), np.asarray(f.table)
    if at in f.support:
        place = f.support.index(at)
        table = table[(rows >> place & 1) == case.bit]
    support = tuple(t - (t > at) for t in f.support if t != at)
    return SparseFunction(support, table, None if f.T is None else f.T - 1)


def all_ones(bits: tuple[int, ...] | None, case: QueryCase) -> tuple[int, ...]:
    """The ones of an input of T - 1 bits, as those of the whole input."""
    at = case.position
    assert bits is not None and at is not None
    moved = [t + (t >= at) for t in bits] + ([at] if case.bit else [])
    return tuple(sorted(moved))
