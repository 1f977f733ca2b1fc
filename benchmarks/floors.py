"""Floors against brute force, and the floors of the reference card.

    python benchmarks/floors.py table 4000        # 30 settings, so many samples each
    python benchmarks/floors.py reference         # the floors in reference.json, found again

Brute force shares no code with the library's simulation: it draws whole samples, evaluates every
placement on every example and counts those that agree (or weighs all of them by their errors, where
labels are flipped). A floor holds when its chance is below the target at one example less, and at
least the target at the floor, each within two standard errors.
"""

import itertools
import json
import math
import sys
from dataclasses import replace

import numpy as np

from capax.analysis.floor import Floor, Protocol, floor
from capax.boolean.parser import parse

B = 2 ** (-1 / 3)
SETTINGS: tuple[tuple[str, int, float, dict], ...] = (
    ("xor2", 20, 0.5, {}),
    ("xor2", 20, 0.5, {"guesses": 5}),
    ("xor2", 30, 0.5, {}),
    ("parity3", 16, 0.5, {}),
    ("parity3", 16, 0.5, {"guesses": 5}),
    ("parity3", 20, 0.5, {}),
    ("parity3", 24, 0.5, {"guesses": 3}),
    ("parity3", 20, 0.3, {}),
    ("and3", 11, B, {}),
    ("and3", 20, B, {}),
    ("and3", 20, B, {"guesses": 5}),
    ("and3", 30, B, {}),
    ("and3", 30, B, {"guesses": 2}),
    ("and3", 20, 0.5, {}),
    ("or3", 20, 1 - B, {}),
    ("or3", 24, 1 - B, {"guesses": 5}),
    ("and2", 30, 2**-0.5, {}),
    ("and4", 14, 0.5**0.25, {}),
    ("maj3", 16, 0.5, {}),
    ("maj3", 16, 0.5, {"guesses": 3}),
    ("maj5", 12, 0.5, {}),
    ("x0 & ~x1", 20, 0.5, {}),
    ("x0 ^ (x1 & ~(x2 & ~x3))", 9, 0.5, {}),
    ("and3", 20, B, {"supports": "contiguous"}),
    ("and3", 60, B, {"supports": "contiguous", "guesses": 3}),
    ("parity3", 40, 0.5, {"supports": "contiguous"}),
    ("x0 & ~x1", 30, 0.5, {"supports": "contiguous"}),
    ("and3", 12, B, {"noise": 0.1}),
    ("xor2", 14, 0.5, {"noise": 0.2, "guesses": 3}),
    ("maj3", 20, 0.5, {"noise": 0.1, "supports": "contiguous"}),
)


def rules(function: str, T: int, supports: str) -> np.ndarray:
    """Positions of every placement, each function once, told apart by its values on all inputs."""
    f = parse(function)
    sets = (
        itertools.combinations(range(T), f.s)
        if supports == "random"
        else (tuple(range(i, i + f.s)) for i in range(T - f.s + 1))
    )
    rows = np.arange(1 << f.s)
    bits = (rows[:, None] >> np.arange(f.s)) & 1
    orders: dict[bytes, tuple[int, ...]] = {}
    for order in itertools.permutations(range(f.s)):
        index = sum(bits[:, position] << i for i, position in enumerate(order))
        orders.setdefault(f.table[index].tobytes(), order)
    return np.array([[one[i] for i in order] for one in sets for order in orders.values()])


def brute_force(
    function: str, T: int, p: float, m: int, draws: int, protocol: Protocol, seed: int = 1
) -> tuple[float, float]:
    """Chance of the best learner at m and its standard error, from `draws` whole samples."""
    f, random = parse(function), np.random.default_rng([seed, T, m])
    places = rules(function, T, protocol.supports)
    found = np.empty(draws)
    for d in range(draws):
        X = random.random((m, T)) < p
        index = sum(X[:, places[:, i]].astype(np.int64) << i for i in range(f.s))
        values = f.table[index]  # [m, N]
        y = values[:, random.integers(len(places))]
        if not protocol.noise:
            found[d] = min(1.0, protocol.guesses / (values == y[:, None]).all(axis=0).sum())
            continue
        seen = np.where(random.random(m) < protocol.noise, 1 - y, y)
        wrong = (values != seen[:, None]).sum(axis=0)
        weight = protocol.noise**wrong * (1 - protocol.noise) ** (m - wrong)
        found[d] = np.sort(weight)[-protocol.guesses :].sum() / weight.sum()
    return float(found.mean()), float(found.std()) / math.sqrt(draws)


def holds(found: Floor, below: tuple[float, float], at: tuple[float, float]) -> bool:
    """Below the target at one example less, at least the target at the floor (two errors)."""
    slack = [2 * math.hypot(error, own) for (_, error), own in
             ((below, found.below_error), (at, found.chance_error))]  # fmt: skip
    return below[0] < 0.8 + slack[0] and at[0] >= 0.8 - slack[1]


def table(draws: int) -> None:
    head = ("function", "T", "p", "protocol", "floor", "possible", "at floor - 1", "at the floor")
    print(f"| {' | '.join(head)} | holds |")
    print("|---|---|---|---|---|---|---|---|---|")
    good = 0
    for function, T, p, fields in SETTINGS:
        protocol = Protocol(**fields)
        found = floor(function, T, p, protocol=protocol)
        assert found is not None, (function, T)
        sizes = (found.m - 1, found.m)
        below, at = (brute_force(function, T, p, m, draws, protocol) for m in sizes)
        good += holds(found, below, at)
        words = ", ".join(f"{k} {v}" for k, v in fields.items()) or "1 guess"
        print(
            f"| `{function}` | {T} | {p:.3f} | {words} | {found.m} | {found.low} to {found.high} | "
            f"{below[0]:.3f} ± {below[1]:.3f} | {at[0]:.3f} ± {at[1]:.3f} | "
            f"{'yes' if holds(found, below, at) else 'NO'} |",
            flush=True,
        )
    print(f"\n{good} of {len(SETTINGS)} hold; {draws} samples for each chance.")


def reference() -> None:
    from capax.cards.answers.reference_card import FILE, reference_card, write_reference
    from capax.cards.measuring.card_question import card_floor
    from capax.cards.protocol.plan import REFERENCE

    card = reference_card()
    known: dict[tuple[str, int, float], int | None] = {}
    for row in card.rows:
        at = (row.target, row.T, row.accuracy)
        if at not in known:
            found = card_floor(REFERENCE, *at)
            known[at] = None if found is None else found.m
            print(*at, "was", row.floor, "is", known[at], flush=True)
    rows = tuple(replace(row, floor=known[row.target, row.T, row.accuracy]) for row in card.rows)
    data = json.loads(FILE.read_text(encoding="utf-8"))
    made = {k: v for k, v in data["protocol"].items() if k not in REFERENCE.model_dump()}
    print(write_reference(replace(card, rows=rows), made))


if __name__ == "__main__":
    if sys.argv[1] == "reference":
        reference()
    else:
        table(int(sys.argv[2]))
