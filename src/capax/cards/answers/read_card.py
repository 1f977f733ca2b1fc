"""From a store to a card: thresholds at every accuracy, laws, learning curves."""

from dataclasses import asdict, dataclass

import numpy as np

from capax.analysis.summary import answer
from capax.analysis.threshold import Threshold, threshold_of
from capax.cards.answers.card_rows import (
    UNFINISHED,
    Card,
    CurveRow,
    LawRow,
    Row,
    TroubleRow,
    note_key,
)
from capax.cards.measuring.card_question import (
    CardQuestion,
    card_floor,
    fewest,
    lowest,
    rates_of,
)
from capax.cards.measuring.looks import (
    Looks,
    Rate,
    chosen_rate,
    coarse_answer,
    evidence,
    stored_looks,
    tuning_name,
)
from capax.cards.measuring.rounds import counts_at
from capax.cards.protocol.matched_sizes import parameters_of
from capax.cards.protocol.plan import Plan
from capax.cards.protocol.targets import target_of
from capax.errors import counted
from capax.learners.names import Entry
from capax.sweep.storage.store import Store
from capax.sweep.storage.troubles import Trouble
from capax.sweep.storage.troubles import troubles as troubles_in

_DOUBTFUL = 0.05  # the p-value of a fit below which a law is not named, even if it alone is left
_CURVES = 2  # sample sizes per learner and target whose learning curves are shown


def read_card(
    plan: Plan, entries: tuple[Entry, ...], store: Store, *, unfinished: bool = False
) -> Card:
    """The rows of these learners under this plan, from a store.

    unfinished: also the cells without an answer, each with its trials so far or with the reason;
    otherwise only finished ones, of learners that the store knows.
    """
    if not unfinished:
        known = {row["panel"] for row in store.select("SELECT DISTINCT panel FROM trials")}
        entries = tuple(e for e in entries if any(n.startswith(f"{e.name} on ") for n in known))
    rows: list[Row] = []
    laws: list[LawRow] = []
    curves: list[CurveRow] = []
    notes: dict[str, str] = {}
    troubles: list[TroubleRow] = []
    failed, left = troubles_in(store), {(u.panel, u.T): u.note for u in store.unfinished()}
    for target in plan.targets:
        for entry in entries:
            asked = [T for T in sorted(plan.T) if plan.asks(entry, target, T)]
            name = plan.panel(entry, target).name
            cells = [_cell(plan, entry, target, T, store, left) for T in asked]
            at = {
                (cell.T, accuracy): threshold_at(plan, target, cell.T, accuracy, cell.looks)
                for cell in cells  # one after the other: the accuracies of a cell share tables
                for accuracy in plan.accuracies
            }
            for accuracy in plan.accuracies:
                found: list[Threshold] = []
                for cell in cells:
                    threshold = at[cell.T, accuracy]
                    if cell.is_answered and threshold is not None:
                        found.append(threshold)
                    elif not unfinished:
                        continue
                    rows.append(_row(plan, entry, target, accuracy, cell, threshold, store))
                    key = note_key(entry.name, target, cell.T, accuracy)
                    notes[key] = _note(cell, accuracy, threshold)
                if found:
                    laws.append(_law(entry.name, target, accuracy, tuple(found)))
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


@dataclass(frozen=True)
class _Known:
    """The trials of a learner on a target at one T: trials that count, and trials for the rate.

    `note`: why there is no answer, if trouble prevented it.
    """

    T: int
    looks: Looks
    tuning: dict[Rate, Looks]
    is_answered: bool
    note: str = ""


def _cell(
    plan: Plan,
    entry: Entry,
    target: str,
    T: int,
    store: Store,
    left: dict[tuple[str, int], str],
) -> _Known:
    """The trials that count; if no rate came near, those of the best rate on the tuning seeds.

    An incomplete grid has none: solved trials finish first, so its success rates are too high.
    """
    name = plan.panel(entry, target).name
    tuning, looks = _tuning(plan, entry, name, T, store), stored_looks(store, name, T)
    note, is_answered = left.get((name, T), ""), (name, T) not in left
    if not is_answered and not note and (looks or any(tuning.values())):
        copied = {rate: dict(known) for rate, known in tuning.items()}
        again = CardQuestion(plan, entry, target, T, dict(looks), copied)
        again.begin()  # a store of before cards closed their questions: is anything wanted still?
        is_answered, note = again.finished, again.note
    count = evidence(looks)
    if plan.design == "grid" and not is_answered:
        count = {}
    elif is_answered and not looks:
        count = evidence(tuning.get(chosen_rate(tuning), {}))
    return _Known(T, count, tuning, is_answered and bool(count), note)


def threshold_at(
    plan: Plan, target: str, T: int, accuracy: float, looks: Looks
) -> Threshold | None:
    """m* at an accuracy, from the trials that count; None where there are none."""
    counts = counts_at(looks, accuracy)
    if not counts.trials:
        return None
    if plan.design == "adaptive":
        low, largest = lowest(fewest(plan, target, T)), max(counts.m)
        counts = plan.search(min(low, largest - 1), largest).rising(counts)
    return threshold_of("", T, counts, floor=card_floor(plan, target, T, accuracy))


def _note(cell: _Known, accuracy: float, found: Threshold | None) -> str:
    """The state of knowledge about m*, in a few words."""
    if cell.is_answered and found is not None:
        return found.status
    if cell.note:
        return cell.note
    if found is not None and found.m_star is not None:
        return f"{UNFINISHED}, {counted(found.trials, 'trial')}"
    return f"{UNFINISHED}, {coarse_answer(cell.looks, cell.tuning, accuracy)}"


def _tuning(plan: Plan, entry: Entry, name: str, T: int, store: Store) -> dict[Rate, Looks]:
    rates = rates_of(plan, entry)
    return {rate: stored_looks(store, tuning_name(name, rate), T) for rate in rates}


def _row(
    plan: Plan,
    entry: Entry,
    target: str,
    accuracy: float,
    cell: _Known,
    found: Threshold | None,
    store: Store,
) -> Row:
    name = plan.panel(entry, target).name
    (cost,) = store.select(
        "SELECT avg(r.seconds) AS s FROM runs r JOIN trials t USING (trial_id) "
        "WHERE t.T = ? AND (t.panel = ? OR t.panel LIKE ?)",
        cell.T,
        name,
        f"{name}, %",
    )
    floor = found.floor if found else card_floor(plan, target, cell.T, accuracy)
    share = 0.0 if found is None else sum(found.counts.solved) / found.counts.trials
    return Row(
        learner=entry.name,
        target=target,
        T=cell.T,
        accuracy=accuracy,
        m_star=None if found is None else found.m_star,
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        floor=floor.m if floor else None,
        solved_share=round(share, 4),
        rate=chosen_rate(cell.tuning) if any(cell.tuning.values()) else None,
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
    """Mean curves at the largest T, for the most tried m: the one around the threshold.

    Of trials that aim at the highest accuracy: the others end on their way there.
    """
    rows = store.select(
        "SELECT t.T, t.m, r.curves FROM trials t JOIN runs r USING (trial_id) WHERE t.panel = ? "
        "AND coalesce(json_extract(r.spec, '$.success.accuracy'), 1.0) >= ?",
        panel,
        max(plan.accuracies),
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


def _troubles(
    learner: str, target: str, panel: str, found: tuple[Trouble, ...]
) -> list[TroubleRow]:
    """Those of a learner on a target; at each T the trials that score and those for the rate."""
    together: dict[tuple[int, str], list[Trouble]] = {}
    for one in found:
        if one.panel == panel or one.panel.startswith(f"{panel}, "):
            together.setdefault((one.T, one.reason), []).append(one)
    return [
        TroubleRow(learner, target, T, sum(one.runs for one in same), reason)
        for (T, reason), same in sorted(together.items())
    ]


def _about(plan: Plan, entry: Entry) -> dict[str, object]:
    counts = {str(T): parameters_of(entry, T) for T in plan.T} if entry.in_lanes else {}
    rates = list(plan.rates) if entry.tuned else []
    return {"parameters": counts, "rates_tried": rates, "source": entry.source[:16]}
