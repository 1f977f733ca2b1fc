"""`capax.card`: the inductive bias of a learner, measured, beside the reference learners."""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from capax.cards.answers.card_rows import Card
from capax.cards.answers.mixed import MIXED, SHORTEST, mixed_row
from capax.cards.answers.read_card import read_card
from capax.cards.answers.reference_card import reference_card
from capax.cards.answers.time_rows import time_rows
from capax.cards.measuring.parity_times import TIMES
from capax.cards.measuring.run_card import (
    card_on_ray,
    default_store,
    run_card,
    run_parity_times,
)
from capax.cards.protocol.plan import TIMED, Plan
from capax.errors import InputError, require
from capax.learners.names import Entry, entry_of
from capax.sweep.running.runner import Report
from capax.sweep.storage.store import Store

FIVE = ("transformer", "linear_attention", "deep_sets", "mlp", "lasso")
"""The default learners of a card."""


def card(
    *learners: Any,
    T: Iterable[int] = (20, 50, 100),
    targets: Iterable[str] = ("and3",),
    store: Path | str | None = None,
    references: bool = True,
    report: Report | None = None,
    at_once: int = 1,
    minutes: float | None = None,
    on: Literal["here", "ray"] = "here",
    address: str | None = None,
    **protocol: Any,
) -> Card:
    """The inductive-bias card of `learners`: m*(T) at 100, 99 and 95 % accuracy on each target.

    learners: names of the zoo, `"mine.py:build"`, or objects: an estimator, a fit function, a
    factory of PyTorch or Equinox modules (`capax.learners`); the five of `FIVE` by default.
    T, targets: lengths, and names (`capax.cards.TARGETS`) or formulas; `mixed` shows which of two
    parities that agree on the sample is learned (`capax.cards.answers.mixed`); `times` measures the
    steps for parities of 2, 3 and 4 bits (`capax.cards.measuring.parity_times`). store: SQLite
    file, resumed if it exists; in the cache by default. references: rows of the reference learners
    are added if the package has them, measured under the same protocol. on: `ray` trains on the
    cluster at `address` (a local one if None). Other keywords are fields of `capax.cards.Plan`.
    A cell with an unfinished search has the results so far, and `unfinished` in its note.
    Raises `InputError` for learners, targets or lengths that cannot be measured.

    Examples:
        >>> import capax
        >>> try:
        ...     capax.card("no_such_learner", T=[20])
        ... except capax.InputError as error:
        ...     print("no_such_learner" in str(error))
        True
    """
    wanted = tuple(targets)
    rules = tuple(t for t in wanted if t not in (MIXED, TIMES))
    plan = Plan(T=tuple(T), targets=rules or ("and3",), **protocol)
    if MIXED in wanted:
        require(min(plan.T) >= SHORTEST, "T", f"at least {SHORTEST} for mixed parity", list(plan.T))
    entries = distinct(tuple(entry_of(learner) for learner in learners or FIVE))
    path = default_store(plan, entries) if store is None else Path(store)
    way = card_on_ray(entries, address) if on == "ray" else None
    how: dict[str, Any] = {"at_once": at_once, "minutes": minutes, "report": report, "way": way}
    began = time.monotonic()
    with Store.create_or_resume(path, plan.experiment(entries)) as opened:
        if set(wanted) != {TIMES}:
            run_card(plan, entries, opened, **how)
            measured = read_card(plan, entries, opened, unfinished=True)
        else:
            names = tuple(entry.name for entry in entries)
            measured = Card((), (), protocol=plan.model_dump(mode="json"), measured=names)
        if TIMES in wanted:
            if minutes is not None:
                how["minutes"] = max(0.0, minutes - (time.monotonic() - began) / 60)
            run_parity_times(plan, entries, opened, **how)
            measured = replace(measured, times=time_rows(plan, entries, opened))
    if MIXED in wanted:
        rows = tuple(mixed_row(plan, entry, length) for entry in entries for length in plan.T)
        measured = replace(measured, mixed=rows)
    return beside_references(measured, plan) if references else measured


def beside_references(measured: Card, plan: Plan) -> Card:
    """The card with the rows of the reference learners, if they were measured the same way."""
    targets = plan.targets if measured.rows else ()
    known = reference_card().only(targets, plan.T)
    if not measured.times or plan.differs_from(known.protocol, TIMED):
        known = replace(known, times=())
    if not known.rows and not known.times:
        return measured
    edit = plan.differs_from(known.protocol) if known.rows else None
    if edit is None:
        return measured.joined(known)
    remark = f"reference learners are not shown: they were measured with {edit}"
    return replace(measured, remarks=(*measured.remarks, remark))


def distinct(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Raises `InputError` if two learners have the same name."""
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"learners: {name} is named {names.count(name)} times; name it once")
    return entries
