"""A search for a bad input, which gives a lower bound on the worst-case error.

At each pattern of the relevant symbols, from random irrelevant ones, change the single symbols that
raise |output - target| most, until no change raises it. Every error found is attained by an actual
input, so it can never exceed the certified one; if both are equal, the certificate is tight.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from capax.compiler.proof.merging import free_positions
from capax.compiler.proof.tables import HeadTables

MAX_TOKENS = 4096
FAINT = 1e-290
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
    suspicion: Float[np.ndarray, " rows"] | None = None,
    seed: int = 0,
    restarts: int = 1,
    max_rounds: int = 60,
) -> Attack:
    """The worst of greedy ascents from the same symbol everywhere and from random symbols.

    `rows` = patterns of the relevant bits to start from (None: all; of more than 64, the 32 with
    the largest `suspicion` and 32 random ones: a forged file may look harmless where it is not).
    Long contexts (T > 4096) are searched by kinds of positions, see `_by_kinds`.
    """
    generator = np.random.default_rng(seed)
    short, place = (tables, None) if tables.T <= MAX_TOKENS else _by_kinds(tables, support)
    inner = support if place is None else range(len(support))
    best = Attack(-np.inf, np.zeros(short.T, dtype=np.int64))
    for row in _patterns(len(targets), suspicion, generator) if rows is None else rows:
        for start in _starts(short, restarts, generator):
            bits = _with_pattern(start, inner, row, short.alphabet)
            found = _ascend(short, inner, float(targets[row]), readout, bits, max_rounds)
            best = max(best, found, key=lambda attempt: attempt.error)
    return best if place is None else Attack(best.error, best.bits[place])


def _patterns(
    total: int, suspicion: np.ndarray | None, generator: np.random.Generator
) -> Sequence[int]:
    """All patterns of the relevant bits, or 64 of them: suspicious and random ones."""
    if total <= 64:
        return range(total)
    order = np.arange(total) if suspicion is None else np.argsort(-suspicion, kind="stable")
    return [*order[:32].tolist(), *generator.choice(total, 32, replace=False).tolist()]


def _by_kinds(
    tables: HeadTables, support: Sequence[int]
) -> tuple[HeadTables, Integer[np.ndarray, " T"]]:
    """Tables with one token for all equal positions, which then have the same bit.

    The weight of n equal tokens is that of one with ln n more in its logit. Also returns, for every
    position, its place in the shorter tables: the support comes first.
    """
    free = free_positions(tables, support)
    at = np.asarray(support, np.int64)
    alike = free.logits.mid + np.log(free.count)[:, None]
    logits = np.concatenate([tables.logits.mid[at], alike])
    values = np.concatenate([tables.values.mid[at], free.values.mid])
    place = np.empty(tables.T, np.int64)
    place[at] = np.arange(len(at))
    place[np.delete(np.arange(tables.T), at)] = len(at) + free.kind
    cls = tables.cls_logit.mid, tables.cls_value.mid
    return HeadTables.exact(logits, values, *cls), place


def _starts(tables: HeadTables, restarts: int, generator: np.random.Generator) -> list[np.ndarray]:
    T, A = tables.T, tables.alphabet
    random = [generator.integers(0, A, T) for _ in range(restarts)]
    return [*(np.full(T, c, dtype=np.int64) for c in range(A)), *random]


def _with_pattern(bits: np.ndarray, support: Sequence[int], row: int, A: int) -> np.ndarray:
    changed = bits.copy()
    for i, t in enumerate(support):
        changed[t] = row // A**i % A
    return changed


def _ascend(
    tables: HeadTables,
    support: Sequence[int],
    target: float,
    readout: Readout,
    bits: np.ndarray,
    max_rounds: int,
) -> Attack:
    """Change, in each round, the symbols whose single change to the best other raises the error.

    All at once, or the better half, quarter, ... until the error rises.
    """
    mass, cls_mass = tables.masses()
    mass = np.maximum(mass, FAINT)  # if all others are off, the faintest token counts
    every = np.arange(tables.T)
    free = np.delete(every, np.asarray(support, dtype=np.int64))
    weighted = mass[:, :, None] * tables.values.mid

    def evaluate(choice: np.ndarray) -> tuple[float, np.ndarray, float]:
        z = cls_mass + mass[every, choice].sum()
        n = cls_mass * tables.cls_value.mid + weighted[every, choice].sum(axis=0)
        return float(np.abs(readout((n / z)[None])[0] - target)), n, float(z)

    error, n, z = evaluate(bits)
    for _ in range(max_rounds):
        gains, other = np.full(len(free), -np.inf), bits[free]
        for step in range(1, tables.alphabet):
            to = (bits[free] + step) % tables.alphabet
            n_changed = n + weighted[free, to] - weighted[free, bits[free]]
            z_changed = z + mass[free, to] - mass[free, bits[free]]
            gain = np.abs(readout(n_changed / z_changed[:, None]) - target) - error
            other, gains = np.where(gain > gains, to, other), np.maximum(gain, gains)
        better = np.flatnonzero(gains > NOISE)
        helpful = better[np.argsort(-gains[better], kind="stable")]
        size = len(helpful)
        while size:
            trial = bits.copy()
            trial[free[helpful[:size]]] = other[helpful[:size]]
            new_error, new_n, new_z = evaluate(trial)
            if new_error > error + NOISE:
                break
            size //= 2
        if not size:
            break
        bits, error, n, z = trial, new_error, new_n, new_z
    return Attack(error, bits)
