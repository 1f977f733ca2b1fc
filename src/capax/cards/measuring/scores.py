"""What a card remembers of a trial, and the rate that its tuning trials speak for."""

import json
import math
from typing import NamedTuple

from capax.sweep.search import Cell
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome

Rate = float | None
"""A learning rate; None for learners that have none."""


class Look(NamedTuple):
    """The best accuracy on the validation set that any look at any run found, and steps taken."""

    accuracy: float
    steps: int


Looks = dict[Cell, Look]


def look_at(outcome: Outcome) -> Look:
    """What an outcome says."""
    shares = (a for run in outcome.runs for a in run.curves.get("validation_accuracy", []))
    return Look(max(shares, default=0.0), sum(run.steps for run in outcome.runs))


def stored_looks(store: Store, panel: str, T: int) -> Looks:
    """All finished trials of a panel at T."""
    rows = store.select(
        "SELECT t.m, t.number, t.solved, r.steps, r.curves FROM trials t "
        "LEFT JOIN runs r USING (trial_id) WHERE t.panel = ? AND t.T = ?",
        panel,
        T,
    )
    looks: Looks = {}
    for row in rows:
        curves = json.loads(row["curves"]) if row["curves"] else {}
        seen = max(curves.get("validation_accuracy", []), default=float(row["solved"]))
        cell = (row["m"], row["number"])
        before = looks.get(cell, Look(0.0, 0))
        looks[cell] = Look(max(before.accuracy, seen), before.steps + (row["steps"] or 0))
    return looks


def tuning_name(panel: str, rate: Rate) -> str:
    """The panel under which tuning trials are kept, apart from those that count."""
    return f"{panel}, scouts" if rate is None else f"{panel}, tuning lr = {rate:g}"


def chosen_rate(tuning: dict[Rate, Looks]) -> Rate:
    """The rate with the best mean accuracy on the tuning seeds.

    Of equals the one that got there in fewer steps (a solved run stops), then the one nearest to
    the middle of those tried, on a log scale: the ends are where training breaks.
    """
    rates = [rate for rate in tuning if rate is not None]
    if not rates:
        return None
    middle = sum(math.log(rate) for rate in rates) / len(rates)

    def merit(rate: float) -> tuple[float, float, float]:
        looks = list(tuning[rate].values())
        number = max(1, len(looks))
        accuracy = round(sum(look.accuracy for look in looks) / number, 4)
        steps = sum(look.steps for look in looks) / number
        return accuracy, -steps, -abs(math.log(rate) - middle)

    return max(sorted(rates), key=merit)


def open_range(looks: Looks, accuracies: tuple[float, ...], low: int, high: int) -> tuple[int, int]:
    """The m between which the scouts leave the thresholds open.

    From half the m up to which no scout passed at the lowest accuracy, to four times the m from
    which on all passed at the highest: scouts are few, and a plateau must be seen to be one.
    """
    tried = sorted({m for m, _ in looks})
    worst = {m: min(s.accuracy for (k, _), s in looks.items() if k == m) for m in tried}
    best = {m: max(s.accuracy for (k, _), s in looks.items() if k == m) for m in tried}
    lost = [m for m in tried if all(best[k] < min(accuracies) for k in tried if k <= m)]
    won = [m for m in tried if all(worst[k] >= max(accuracies) for k in tried if k >= m)]
    bottom = max([low, *(m // 2 for m in lost)])
    top = min([high, *(4 * m for m in won)])
    return min(bottom, top - 1), top
