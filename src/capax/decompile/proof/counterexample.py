"""A search for an input on which a network and a formula disagree.

At a pattern of the support, from all-zero, all-one and random fillers: flip the better half of the
fillers whose single flip brings the logit nearer to the wrong side, as long as that helps. The
search runs on the tables of a one-layer network in float64, or asks the model itself
(`AskedForward`); a find counts only when the model confirms it.
"""

from dataclasses import dataclass

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.decompile.proof.table_forward import TableForward
from capax.decompile.reading.influence import random_bits
from capax.decompile.reading.oracle import Oracle
from capax.errors import InputError

ROUNDS = 40
MAX_PATTERNS = 32


@dataclass(frozen=True)
class AskedForward:
    """A model without tables: the inputs stand for their sums, and every logit is asked for."""

    model: Oracle

    @property
    def T(self) -> int:
        return self.model.T

    def sums(self, X: np.ndarray) -> np.ndarray:
        """The inputs themselves."""
        return X

    def flips(self, sums: np.ndarray, x: np.ndarray, free: np.ndarray) -> np.ndarray:
        """x with each of the positions `free` flipped, [F, T]."""
        del sums
        return x ^ (np.arange(self.T) == free[:, None]).astype(np.uint8)

    def logits(self, sums: np.ndarray) -> np.ndarray:
        """The model's numbers."""
        return self.model.values(sums)


Forward = TableForward | AskedForward


@dataclass(frozen=True)
class Found:
    """The smallest signed margin (negative: wrong) that was found, and its input."""

    margin: float
    bits: np.ndarray
    inputs: int


def search(
    forward: Forward,
    f: SparseFunction,
    rng: np.random.Generator,
    *,
    threshold: float = 0.0,
    p: float = 0.5,
    starts: int = 3,
) -> Found:
    """The worst input found; `inputs` counts the evaluations."""
    T, support = forward.T, np.asarray(f.support, np.int64)
    free = np.delete(np.arange(T), support)
    signs = np.where(f.table > 0.5, 1.0, -1.0)
    rows = np.arange(len(signs))
    if len(rows) > MAX_PATTERNS:
        rows = _narrowest(forward, f, rng, signs, threshold, p)
    best, asked = Found(np.inf, np.zeros(T, np.uint8), 0), 0
    for row in rows.tolist():
        fillers = random_bits(rng, starts, T, p)
        fillers[0], fillers[-1] = 0, 1
        for x in fillers:
            x[support] = row >> np.arange(len(support)) & 1
            margin, bits, count = _descend(forward, x, free, signs[row], threshold)
            asked += count
            if margin < best.margin:
                best = Found(margin, bits, 0)
    return Found(best.margin, best.bits, asked)


def search_by_asking(
    model: Oracle, f: SparseFunction, rng: np.random.Generator, p: float
) -> Found | None:
    """The same by the model's own numbers: a negative margin is a wrong decision.

    None: a number is NaN, or asked once more the model decides otherwise.
    """
    try:
        found = search(AskedForward(model), f, rng, threshold=model.threshold, p=p)
        wrong = bool(model(found.bits[None])[0]) != bool(f(found.bits) > 0.5)
    except InputError:
        return None
    return found if wrong == (found.margin < 0) else None


def _narrowest(
    forward: Forward,
    f: SparseFunction,
    rng: np.random.Generator,
    signs: np.ndarray,
    threshold: float,
    p: float,
) -> np.ndarray:
    """The patterns with the smallest margins at one random filler each."""
    X = random_bits(rng, len(signs), forward.T, p)
    for i, t in enumerate(f.support):
        X[:, t] = np.arange(len(signs)) >> i & 1
    margins = signs * (forward.logits(forward.sums(X)) - threshold)
    return np.argsort(margins, kind="stable")[:MAX_PATTERNS]


def _descend(
    forward: Forward, x: np.ndarray, free: np.ndarray, sign: float, threshold: float
) -> tuple[float, np.ndarray, int]:
    asked = 1
    sums = forward.sums(x[None])[0]
    margin = float(sign * (forward.logits(sums[None])[0] - threshold))
    for _ in range(ROUNDS):
        if not len(free):
            break
        single = sign * (forward.logits(forward.flips(sums, x, free)) - threshold)
        asked += len(free)
        helpful = free[np.argsort(single, kind="stable")][: int((single < margin - 1e-12).sum())]
        size = len(helpful)
        while size:
            trial = x.copy()
            trial[helpful[:size]] ^= 1
            new_sums = forward.sums(trial[None])[0]
            new = float(sign * (forward.logits(new_sums[None])[0] - threshold))
            asked += 1
            if new < margin - 1e-12:
                break
            size //= 2
        if not size:
            break
        x, sums, margin = trial, new_sums, new
    return margin, x, asked
