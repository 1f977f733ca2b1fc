"""The record of a trial in a card, and the choice of a rate by tuning trials."""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from capax.cards.protocol.plan import TUNING_SEEDS, Plan
from capax.errors import counted
from capax.sweep.searching.search import Cell
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome

Rate = float | None
"""A learning rate; None for learners that have none."""
_NEAR = 1.5
"""Factor between an m that works and one that does not, below which no m between them is tried."""


class BestLook(NamedTuple):
    """The best accuracy on the validation set that any look at any run found, and steps taken.

    `trouble`: the trial ended for a reason of its own (an error, a limit of time or memory), so it
    says nothing about the number of examples. `aim`: it ended once it was this accurate, so it says
    nothing about higher accuracies, whether it reached its aim or not.
    """

    accuracy: float
    steps: int
    trouble: bool = False
    aim: float = 1.0


Looks = dict[Cell, BestLook]


def look_at(outcome: Outcome) -> BestLook:
    """The best accuracy, the steps and the trouble of an outcome."""
    shares = (a for run in outcome.runs for a in run.curves.get("validation_accuracy", []))
    trouble = bool(outcome.reason) or any(
        _failed(r.path, r.outcome, r.reason) for r in outcome.runs
    )
    steps, best = sum(run.steps for run in outcome.runs), max(shares, default=0.0)
    aims = [run.spec.get("success", {}).get("accuracy", 1.0) for run in outcome.runs]
    return BestLook(best, steps, trouble, min(aims, default=1.0))


def _failed(path: str, outcome: str, reason: str) -> bool:
    """Whether a run gave no evidence. The engine writes as its reason why it took its path, and a
    run that diverged is a result of training."""
    return path == "plain" and outcome == "failed" and bool(reason)


def stored_looks(store: Store, panel: str, T: int) -> Looks:
    """All finished trials of a panel at T."""
    rows = store.select(
        "SELECT t.m, t.number, t.solved, t.reason AS why, r.steps, r.curves, r.path, r.outcome, "
        "r.reason, json_extract(r.spec, '$.success.accuracy') AS aim "
        "FROM trials t LEFT JOIN runs r USING (trial_id) WHERE t.panel = ? AND t.T = ?",
        panel,
        T,
    )
    looks: Looks = {}
    for row in rows:
        curves = json.loads(row["curves"]) if row["curves"] else {}
        seen = max(curves.get("validation_accuracy", []), default=float(row["solved"]))
        cell = (row["m"], row["number"])
        before = looks.get(cell, BestLook(0.0, 0))
        trouble = bool(row["why"]) or _failed(row["path"], row["outcome"], row["reason"])
        looks[cell] = BestLook(
            max(before.accuracy, seen),
            before.steps + (row["steps"] or 0),
            before.trouble or trouble,
            1.0 if row["aim"] is None else row["aim"],
        )
    return looks


def evidence(looks: Looks, accuracy: float = 0.0) -> Looks:
    """The trials without trouble that aimed at this accuracy or at a higher one."""
    return {c: look for c, look in looks.items() if not look.trouble and look.aim >= accuracy}


def broken_m(looks: Looks) -> set[int]:
    """The m at which a learner does not work: two trials or more with trouble, and most of them."""
    found = set()
    for m in {m for m, _ in looks}:
        troubles = [look.trouble for (k, _), look in looks.items() if k == m]
        if sum(troubles) >= 2 and 2 * sum(troubles) > len(troubles):
            found.add(m)
    return found


def usable_range(looks: Looks, low: int, high: int) -> tuple[int, int] | None:
    """The m between which a learner works, as far as is known; None where no m is left.

    Trouble at large m (memory, time) lowers the upper end: to the geometric mean of the m that
    failed and the largest that works, until they lie within a factor `_NEAR`. Trouble at small m
    raises the lower end.
    """
    broken, works = broken_m(looks), {m for m, _ in evidence(looks)}
    too_large = [m for m in broken if m > max(works, default=0)]
    too_small = [m for m in broken if works and m < min(works)]
    bottom = max([low, *(m + 1 for m in too_small)])
    if not too_large:
        return min(bottom, high - 1), high
    limit, known = min(too_large), max(works, default=0)
    between = int(math.sqrt(max(known, bottom) * limit))
    top = known if known and limit <= _NEAR * known else between
    return (bottom, top) if bottom < top < limit else None


def tuning_name(panel: str, rate: Rate) -> str:
    """The panel under which tuning trials are kept, apart from those that count."""
    return f"{panel}, scouts" if rate is None else f"{panel}, tuning lr = {rate:g}"


def from_the_middle(rates: tuple[Rate, ...]) -> list[Rate]:
    """Rates in the order of their distance to the middle of all, on a log scale."""
    logs = [math.log(rate) for rate in rates if rate is not None]
    middle = sum(logs) / max(1, len(logs))
    return sorted(rates, key=lambda rate: 0.0 if rate is None else abs(math.log(rate) - middle))


def tuning_stages(
    plan: Plan, tuning: dict[Rate, Looks], scouts: tuple[int, ...]
) -> Iterator[tuple[tuple[Rate, ...], tuple[int, ...], int]]:
    """Rates, scouts and a tuning seed, in order; each follows from what the ones before showed.

    All rates on the first seed, then the better half on the next. An adaptive search begins with
    scouts far apart, then has some between those where the first rate passes. On a grid scouts stay
    the same, but the trials at the largest m would take most of the time: all rates are tried there
    only where none passes below it, and the better half always is, for a high rate may fail there.
    """
    first = scouts
    if plan.design == "grid" and len(scouts) > 1:
        yield tuple(tuning), scouts[:-1], TUNING_SEEDS
        seen = [looks.get((scouts[-2], TUNING_SEEDS)) for looks in tuning.values()]
        if any(look and look.accuracy >= max(plan.accuracies) for look in seen):
            first = scouts[:-1]
    for i in range(plan.tuning_trials):
        left = racing(tuning, i)
        if i and plan.design == "adaptive":
            looks = [tuning[rate] for rate in left]
            scouts = scouts_between(looks, scouts, min(plan.accuracies))
        yield left, scouts if i else first, TUNING_SEEDS + i


def racing(tuning: dict[Rate, Looks], round_: int) -> tuple[Rate, ...]:
    """The rates that are tried on the tuning seed number `round_`: half of those of the last one.

    The better half, by all they showed so far; at least two, for a single one has won.
    """
    rates = tuple(tuning)
    for number in range(round_):
        left = max(2, -(-len(rates) // 2))
        seen = {rate: _up_to(tuning[rate], number) for rate in rates}
        rates = tuple(sorted(rates, key=_merit(seen), reverse=True)[:left])
    return tuple(rate for rate in tuning if rate in rates)


def chosen_rate(tuning: dict[Rate, Looks]) -> Rate:
    """The rate with the best mean accuracy on the tuning seeds, of those that were tried on all.

    Of equals the one that got there in fewer steps (a solved run stops), then the one nearest to
    the middle of those tried, on a log scale: the ends are where training breaks.
    """
    rates = [rate for rate in tuning if rate is not None]
    if not rates:
        return None
    last = max((i for looks in tuning.values() for _, i in looks), default=0)
    ran = [rate for rate in rates if any(i == last for _, i in tuning[rate])] or rates
    same = set.intersection(*(set(tuning[rate]) for rate in ran))
    seen = {rate: {c: k for c, k in tuning[rate].items() if c in same} for rate in tuning}
    return max(sorted(ran), key=_merit(seen if same else tuning))


def _merit(tuning: dict[Rate, Looks]) -> Callable[[Rate], tuple[float, float, float]]:
    """The order of rates."""
    logs = [math.log(rate) for rate in tuning if rate is not None]
    middle = sum(logs) / max(1, len(logs))

    def merit(rate: Rate) -> tuple[float, float, float]:
        looks = list(evidence(tuning[rate]).values())
        number = max(1, len(looks))
        accuracy = round(sum(min(look.accuracy, look.aim) for look in looks) / number, 4)
        steps = sum(look.steps for look in looks) / number
        return accuracy, -steps, 0.0 if rate is None else -abs(math.log(rate) - middle)

    return merit


def scouts_between(
    looks: Iterable[Looks], scouts: tuple[int, ...], accuracy: float
) -> tuple[int, ...]:
    """Where rates differ most: between the scouts up to which none passed and the next one.

    The scouts themselves where none passed at all, or nothing lies between.
    """
    passed = {m for seen in looks for (m, _), look in seen.items() if look.accuracy >= accuracy}
    first = min(passed & set(scouts), default=None)
    below = [m for m in scouts if first is not None and m < first]
    if first is None or not below:
        return scouts
    low = max(below)
    found = {round(low * (first / low) ** (i / 4)) for i in (1, 2, 3)}
    return tuple(sorted(found))


def _up_to(looks: Looks, number: int) -> Looks:
    """The trials on the first tuning seeds."""
    return {cell: look for cell, look in looks.items() if cell[1] <= TUNING_SEEDS + number}


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


def coarse_words(looks: Looks, accuracy: float, kind: str = "trial") -> str:
    """A first estimate of m*: between the largest m that failed and the next that passed.

    If no trial aimed at this accuracy: by whether trials reached the accuracy they aimed at.
    """
    known = evidence(looks, accuracy) or evidence(looks)
    if not known:
        return f"{counted(len(looks), kind)} failed" if looks else "no trial yet"
    solved = {cell: look.accuracy >= min(accuracy, look.aim) for cell, look in known.items()}
    failed = max((m for (m, _), passed in solved.items() if not passed), default=0)
    passed = [m for (m, _), passed in solved.items() if passed and m > failed]
    low = f"{failed} < " if failed and passed else ""
    what = f"{low}m* <= {min(passed)}" if passed else f"m* > {failed}"
    return f"perhaps {what}, {counted(len(known), kind)}"


def coarse_answer(scores: Looks, tuning: dict[Rate, Looks], accuracy: float) -> str:
    """The same from scored trials or, before the first of them, tuning trials of the best rate."""
    if scores or not any(tuning.values()):
        return coarse_words(scores, accuracy)
    return coarse_words(tuning[chosen_rate(tuning)], accuracy, "tuning trial")
