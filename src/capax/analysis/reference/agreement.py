"""Do new thresholds agree with a reference, and with the points that the paper published?

A reference is compared only if it is the same experiment: task, model and protocol, field by field,
with defaults. At a T that both have measured, the two intervals are compared; at another T inside
the reference's range, the interval with the band of the reference's law.

The published points are compared if the task is the paper's: a one-layer Transformer on balanced
3-bit ANDs, with any training. A difference then shows the effect of the training.
"""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from capax.analysis.intervals import Interval, agree
from capax.analysis.reference.protocols import protocol
from capax.analysis.reference.published import PublishedAgreement, beside_published
from capax.analysis.reference.reference_stores import Reference, reference, references
from capax.analysis.summary import Answer, answer
from capax.analysis.threshold import (
    Threshold,
    panel_floor,
    searches_for_threshold,
    thresholds,
)
from capax.errors import InputError
from capax.sweep.experiments.spec import Panel
from capax.sweep.storage.store import Store


@dataclass(frozen=True)
class Compared:
    """One T: ours, the other's, and whether they agree."""

    T: int
    mine: Interval
    other: Interval
    agrees: bool


@dataclass(frozen=True)
class ReferenceAgreement:
    """Thresholds beside a reference (`None` if no reference fits) and the published points."""

    reference: Reference | None
    answer: Answer | None
    rows: tuple[Compared, ...]
    published: PublishedAgreement | None
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """As plain data, the reference by its name and command."""
        chosen = self.reference
        return {
            "name": chosen.name if chosen else None,
            "command": chosen.command if chosen else None,
            "device": chosen.device if chosen else None,
            "rows": [asdict(row) for row in self.rows],
            "published": _published_json(self.published),
            "verdict": self.verdict,
        }


def agreement_with(
    panel: Panel, said: Answer, *, folder: Path | None = None, but_not: Path | None = None
) -> ReferenceAgreement | None:
    """Compare with the reference that covers most of our T; `None` without a comparison. Of two
    that cover as many, the one with longer inputs.

    but_not: the store that the thresholds come from, which may be a reference itself.
    """
    lengths = [t.T for t in said.thresholds if not t.reference]
    others = [entry for entry in references(folder) if entry.path != but_not]
    found = [(entry, other) for entry in others if (other := _same(entry, panel))]
    chosen, theirs = None, None
    rows: tuple[Compared, ...] = ()
    if found:
        compared = [(entry, other, _compared(said, other, lengths)) for entry, other in found]
        chosen, theirs, rows = max(compared, key=lambda c: (len(c[2]), c[1].thresholds[-1].T))
    published = _published(panel, said)
    if chosen is None and published is None:
        return None
    words = [_about_reference(chosen, rows)] if chosen else []
    words += [published.verdict] if published else []
    return ReferenceAgreement(chosen, theirs, rows, published, " ".join(words))


def from_reference(
    panel: Panel, own: tuple[Threshold, ...], folder: Path | None = None
) -> tuple[Threshold, ...]:
    """Thresholds of the reference that a panel names, at T that have no trials here.

    Raises `InputError` if it is not the same experiment.
    """
    if not panel.reference:
        return ()
    entry = reference(panel.reference, folder)
    same = _same(entry, panel)
    if same is None:
        wanted = "a reference of the same task, model and protocol"
        raise InputError(f"reference: wanted {wanted}, got {panel.reference!r}")
    here = {t.T for t in own}
    return tuple(
        replace(t, reference=entry.name, floor=panel_floor(panel, t.T))
        for t in same.thresholds
        if t.T not in here
    )


def _same(entry: Reference, panel: Panel) -> Answer | None:
    """The reference's answer for the panel's experiment; `None` if it is another experiment."""
    with Store.read(entry.path) as store:
        panels = store.experiment.panels
    for other in panels:
        if other.family != panel.family or not searches_for_threshold(other):
            continue  # answered without the engine, which takes a second to load
        mine = protocol(panel)
        if mine is not None and protocol(other) == mine:
            return _reference_answer(entry.path, other.name)
    return None


@lru_cache(maxsize=16)
def _reference_answer(path: Path, panel: str) -> Answer:
    with Store.read(path) as store:
        return answer(thresholds(store, panel, floors=False))


def _compared(said: Answer, other: Answer, lengths: list[int]) -> tuple[Compared, ...]:
    pairs = [(T, at(said, T), at(other, T)) for T in lengths]
    known = [(T, mine, theirs) for T, mine, theirs in pairs if mine and theirs]
    return tuple(
        Compared(T, mine, theirs, agree(mine, theirs, comparisons=len(known)))
        for T, mine, theirs in known
    )


def at(said: Answer, T: int) -> Interval | None:
    """m*(T) as measured, or by the law inside the measured range; otherwise `None`."""
    for t in said.thresholds:
        if t.T == T:
            return None if t.low is None and t.high is None else _interval(t)
    if said.scaling is None or not said.thresholds[0].T <= T <= said.thresholds[-1].T:
        return None
    fit, where = said.scaling.best, np.array([float(T)])
    band = fit.band(where)
    if band is None:
        return None
    return Interval(float(fit.predict(where)[0]), float(band[0][0]), float(band[1][0]))


def _interval(t: Any) -> Interval:
    ends = (None if v is None else float(v) for v in (t.m_star, t.low, t.high))
    return Interval(*ends, log_width=t.log_width)


def _published(panel: Panel, said: Answer) -> PublishedAgreement | None:
    """The paper's points, if the task is the paper's: balanced 3-bit AND, one layer."""
    asked = panel.family == "transformer" and panel.task.get("function", "and3") == "and3"
    asked = asked and panel.task.get("support", "random") == "random" and "data" not in panel.task
    asked = asked and panel.task.get("p", "balanced") == "balanced" and not panel.task.get("noise")
    if not asked or panel.model.get("layers", 1) != 1:
        return None
    return beside_published(said.thresholds)


def _published_json(said: PublishedAgreement | None) -> dict[str, Any] | None:
    if said is None:
        return None
    return {**asdict(said), "agrees": said.agrees, "verdict": said.verdict}


def _about_reference(chosen: Reference, rows: tuple[Compared, ...]) -> str:
    if not rows:
        return f"The reference {chosen} has no T in common with these thresholds."
    wrong = [row for row in rows if not row.agrees]
    if not wrong:
        where = f"T = {rows[0].T}" if len(rows) == 1 else f"all {len(rows)} T"
        return f"Agrees with the reference {chosen} at {where}."
    named = "; ".join(f"T = {row.T}: {row.mine} against {row.other}" for row in wrong)
    return f"Differs from the reference {chosen} at {len(wrong)} of {len(rows)} T: {named}."
