"""An attacker who looks for a bad input: a lower bound on the worst-case error, found by search.

At each pattern of the relevant bits, from random irrelevant bits, flip the single bit that raises
|output - target| most, and go on until no flip helps. Every error found is attained by an actual
input, so it can never exceed the certified one; where it equals it, the certificate is tight.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from capax.compiler.proof.tables import HeadTables

NOISE = 1e-13
"""Gains below this are rounding."""
Readout = Callable[[Float[np.ndarray, "n k"]], Float[np.ndarray, " n"]]


class Attack(NamedTuple):
    """The worst error that was found, and the input that shows it."""

    error: float
    bits: Integer[np.ndarray, " T"]


def attack(
    tables: HeadTables,
    support: Sequence[int],
    targets: Float[np.ndarray, " rows"],
    readout: Readout,
    *,
    rows: Sequence[int] | None = None,
    seed: int = 0,
    restarts: int = 3,
    max_rounds: int = 60,
) -> Attack:
    """The worst of greedy ascents from all-zeros, all-ones and random irrelevant bits.

    `rows` = patterns of the relevant bits to start from (None: all, or 64 random ones if more).
    """
    generator = np.random.default_rng(seed)
    best = Attack(-np.inf, np.zeros(tables.T, dtype=np.int64))
    for row in _patterns(len(targets), generator) if rows is None else rows:
        for start in _starts(tables.T, restarts, generator):
            bits = _with_pattern(start, support, row)
            found = _ascend(tables, support, float(targets[row]), readout, bits, max_rounds)
            best = max(best, found, key=lambda attempt: attempt.error)
    return best


def _patterns(total: int, generator: np.random.Generator) -> Sequence[int]:
    """All patterns of the relevant bits, or 64 random ones when there are more."""
    return range(total) if total <= 64 else generator.choice(total, 64, replace=False).tolist()


def _starts(T: int, restarts: int, generator: np.random.Generator) -> list[np.ndarray]:
    random = [generator.integers(0, 2, T) for _ in range(restarts)]
    return [np.zeros(T, dtype=np.int64), np.ones(T, dtype=np.int64), *random]


def _with_pattern(bits: np.ndarray, support: Sequence[int], row: int) -> np.ndarray:
    changed = bits.copy()
    for i, t in enumerate(support):
        changed[t] = row >> i & 1
    return changed


def _ascend(
    tables: HeadTables,
    support: Sequence[int],
    target: float,
    readout: Readout,
    bits: np.ndarray,
    max_rounds: int,
) -> Attack:
    """Flip, in each round, the better half of the bits whose single flip raises the error."""
    mass, cls_mass = tables.masses()
    every = np.arange(tables.T)
    free = np.delete(every, np.asarray(support, dtype=np.int64))
    weighted = mass[:, :, None] * tables.values

    def evaluate(choice: np.ndarray) -> tuple[float, np.ndarray, float]:
        z = cls_mass + mass[every, choice].sum()
        n = cls_mass * tables.cls_value + weighted[every, choice].sum(axis=0)
        return float(np.abs(readout((n / z)[None])[0] - target)), n, float(z)

    error, n, z = evaluate(bits)
    for _ in range(max_rounds):
        now, other = bits[free], 1 - bits[free]
        n_flip = n + weighted[free, other] - weighted[free, now]
        z_flip = z + mass[free, other] - mass[free, now]
        gains = np.abs(readout(n_flip / z_flip[:, None]) - target) - error
        better = np.flatnonzero(gains > NOISE)
        helpful = free[better[np.argsort(-gains[better], kind="stable")]]
        size = len(helpful)
        while size:
            trial = bits.copy()
            trial[helpful[:size]] ^= 1
            new_error, new_n, new_z = evaluate(trial)
            if new_error > error + NOISE:
                break
            size //= 2
        if not size:
            break
        bits, error, n, z = trial, new_error, new_n, new_z
    return Attack(error, bits)
