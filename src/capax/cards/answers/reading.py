"""From a store to a card: thresholds at every accuracy, laws, learning curves."""

from dataclasses import asdict

import numpy as np

from capax.analysis.summary import answer
from capax.analysis.threshold import Threshold, threshold_of
from capax.cards.answers.results import Card, CurveRow, LawRow, Row, Trouble, note_key
from capax.cards.measuring.question import Question, card_floor, rates_of
from capax.cards.measuring.scores import Looks, Rate, chosen_rate, stored_looks, tuning_name
from capax.cards.protocol.plan import Plan
from capax.cards.protocol.sizes import parameters_of
from capax.cards.protocol.targets import target_of
from capax.learners.names import Entry
from capax.sweep.counts import Counts
from capax.sweep.storage.store import Store
from capax.sweep.storage.troubles import Trouble as Failed
from capax.sweep.storage.troubles import troubles as troubles_in

_DOUBTFUL = 0.05  # the p-value of a fit below which a law is not named, even if it alone is left
_CURVES = 2  # sample sizes per learner and target whose learning curves are shown


def read_card(plan: Plan, entries: tuple[Entry, ...], store: Store) -> Card:
    """What the store says about those of these learners that it knows, under this plan."""
    known = {row["panel"] for row in store.select("SELECT DISTINCT panel FROM trials")}
    entries = tuple(e for e in entries if any(name.startswith(f"{e.name} on ") for name in known))
    rows: list[Row] = []
    laws: list[LawRow] = []
    curves: list[CurveRow] = []
    notes: dict[str, str] = {}
    troubles: list[Trouble] = []
    failed = troubles_in(store)
    for target in plan.targets:
        for entry in entries:
            name = plan.panel(entry, target).name
            looks = _looks_by_T(plan, entry, target, store)
            for accuracy in plan.accuracies:
                found = _thresholds(plan, name, target, accuracy, looks)
                for threshold in found:
                    rows.append(_row(plan, entry, target, accuracy, threshold, store))
                    key = note_key(entry.name, target, threshold.T, accuracy)
                    notes[key] = threshold.status
                if found:
                    laws.append(_law(entry.name, target, accuracy, found))
            curves += _curves(plan, entry.name, target, name, store)
            troubles += _troubles(entry.name, target, name, failed)
    return Card(
        rows=tuple(rows),
        laws=tuple(laws),
        curves=tuple(curves),
        notes=notes,
        learners={e.name: _about(plan, e) for e in entries},
        targets={t: asdict(target_of(t)) for t in plan.targets},
        protocol=plan.model_dump(mode="json"),
        measured=tuple(e.name for e in entries),
        troubles=tuple(troubles),
    )


def _looks_by_T(plan: Plan, entry: Entry, target: str, store: Store) -> dict[int, Looks]:
    """The trials that count at every T that has some."""
    asked = (T for T in sorted(plan.T) if plan.asks(entry, target, T))
    found = {T: _answered(plan, entry, target, T, store) for T in asked}
    return {T: looks for T, looks in found.items() if looks}


def _thresholds(
    plan: Plan, name: str, target: str, accuracy: float, by_T: dict[int, Looks]
) -> tuple[Threshold, ...]:
    found = []
    for T, looks in by_T.items():
        counts = Counts.of([(m, look.accuracy >= accuracy) for (m, _), look in looks.items()])
        found.append(threshold_of(name, T, counts, floor=card_floor(plan, target, T, accuracy)))
    return tuple(found)


def _answered(plan: Plan, entry: Entry, target: str, T: int, store: Store) -> Looks:
    """The trials that count; where no rate came near, the best one's on the tuning seeds.

    None of a grid that is not complete: solved trials finish first, so a part of it would flatter.
    """
    name = plan.panel(entry, target).name
    tuning, looks = _tuning(plan, entry, name, T, store), stored_looks(store, name, T)
    if not looks and not any(tuning.values()):
        return {}
    asked = Question(plan, entry, target, T, dict(looks), {k: dict(v) for k, v in tuning.items()})
    if plan.design == "grid" or not looks:
        asked.begin()
    if plan.design == "grid" and not asked.finished:
        return {}
    if looks or not asked.finished:
        return looks
    return tuning.get(chosen_rate(tuning), {})


def _tuning(plan: Plan, entry: Entry, name: str, T: int, store: Store) -> dict[Rate, Looks]:
    rates = rates_of(plan, entry)
    return {rate: stored_looks(store, tuning_name(name, rate), T) for rate in rates}


def _row(
    plan: Plan, entry: Entry, target: str, accuracy: float, found: Threshold, store: Store
) -> Row:
    name, T = found.panel, found.T
    passed, total = sum(found.counts.solved), found.counts.trials
    (cost,) = store.select(
        "SELECT avg(r.seconds) AS s FROM runs r JOIN trials t USING (trial_id) "
        "WHERE t.T = ? AND (t.panel = ? OR t.panel LIKE ?)",
        T,
        name,
        f"{name}, %",
    )
    tuning = _tuning(plan, entry, name, T, store)
    rate = chosen_rate(tuning) if any(tuning.values()) else None
    return Row(
        learner=entry.name,
        target=target,
        T=T,
        accuracy=accuracy,
        m_star=found.m_star,
        low=found.low,
        high=found.high,
        floor=found.floor.m if found.floor else None,
        solved_share=round(passed / total, 4),
        rate=rate,
        seconds=round(cost["s"] or 0.0, 4),
    )


def _law(learner: str, target: str, accuracy: float, found: tuple[Threshold, ...]) -> LawRow:
    """The law that is left, by name only if it fits: every T has its own rate, and where one was
    chosen badly the others are ruled out together with a law that is not right either."""
    scaling = answer(found).scaling if found else None
    if scaling is None:
        return LawRow(learner, target, accuracy, None, None, ())
    p_value = scaling.best.p_fit
    named = scaling.left if p_value is None or p_value >= _DOUBTFUL else None
    shown = None if p_value is None else round(p_value, 4)
    return LawRow(learner, target, accuracy, named, shown, scaling.ruled_out)


def _curves(plan: Plan, learner: str, target: str, panel: str, store: Store) -> list[CurveRow]:
    """Mean curves at the largest T, for the most tried m: the one around the threshold."""
    rows = store.select(
        "SELECT t.T, t.m, r.curves FROM trials t JOIN runs r USING (trial_id) WHERE t.panel = ?",
        panel,
    )
    series: dict[tuple[int, int], list[np.ndarray]] = {}
    steps = np.arange(plan.eval_every, plan.steps + 1, plan.eval_every)
    for row in rows:
        seen = store.series(row["curves"], "curves").get("validation_accuracy", [])
        if len(seen) > 1:
            whole = np.concatenate([seen, np.full(max(0, len(steps) - len(seen)), seen[-1])])
            series.setdefault((row["T"], row["m"]), []).append(whole[: len(steps)])
    most = sorted(series, key=lambda at: (at[0], len(series[at])), reverse=True)[:_CURVES]
    return [
        CurveRow(
            learner,
            target,
            T,
            m,
            tuple(float(s) for s in steps),
            tuple(round(float(a), 4) for a in np.mean(series[T, m], axis=0)),
        )
        for T, m in most
    ]


def _troubles(learner: str, target: str, panel: str, found: tuple[Failed, ...]) -> list[Trouble]:
    """Those of a learner on a target; at each T the trials that score and those for the rate."""
    together: dict[tuple[int, str], list[Failed]] = {}
    for one in found:
        if one.panel == panel or one.panel.startswith(f"{panel}, "):
            together.setdefault((one.T, one.reason), []).append(one)
    return [
        Trouble(learner, target, T, sum(one.runs for one in same), reason)
        for (T, reason), same in sorted(together.items())
    ]


def _about(plan: Plan, entry: Entry) -> dict[str, object]:
    counts = {str(T): parameters_of(entry, T) for T in plan.T} if entry.in_lanes else {}
    rates = list(plan.rates) if entry.tuned else []
    return {"parameters": counts, "rates_tried": rates, "source": entry.source[:16]}
