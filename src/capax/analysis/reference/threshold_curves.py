"""Curves: every panel of every store that searches for a threshold, each under its own name.

`capax thresholds`, `capax figure 2` and `capax report` show this list for several stores and
panels, so a curve has the same name, the same numbers and the same verdict in all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capax.analysis.reference.agreement import ReferenceAgreement, agreement_with, from_reference
from capax.analysis.reference.protocols import protocol_words
from capax.analysis.summary import Answer, answer, floor_ratio, summarised
from capax.analysis.threshold import Threshold, searches_for_threshold, thresholds
from capax.errors import InputError
from capax.sweep.experiments.spec import Panel
from capax.sweep.storage.store import Store, Unfinished


def about_floor(found: tuple[Threshold, ...]) -> str:
    """The ratio of the thresholds to the best learner's, and whether these are a floor."""
    ratio, first = floor_ratio(found), found[0].floor
    if ratio is None or first is None:
        return ""
    if first.is_floor:
        return f"m* is {ratio:.1f} times the floor under every learner ({first.label})."
    return (
        f"m* is {ratio:.1f} times the number of the {first.label}. Ambiguous samples were "
        "redrawn in these trials, so this is not a floor."
    )


def about_reference(found: tuple[Threshold, ...]) -> str:
    """The T whose trials come from a reference."""
    lengths = [str(t.T) for t in found if t.reference]
    if not lengths:
        return ""
    name = next(t.reference for t in found if t.reference)
    return f"The trials at T = {', '.join(lengths)} come from the reference {name}."


@dataclass(frozen=True)
class ThresholdCurve:
    """One m*(T): its thresholds, unfinished T, and its agreement with a reference."""

    name: str
    store: str
    panel: Panel
    experiment: str
    scale: str
    answer: Answer
    unfinished: tuple[Unfinished, ...]
    agreement: ReferenceAgreement | None

    @property
    def protocol(self) -> str:
        """The training of its trials, in a sentence."""
        return protocol_words(self.panel)

    @property
    def verdict(self) -> str:
        """All conclusions about the curve, the most important first."""
        found = self.answer.thresholds
        parts = [self.answer.verdict, about_reference(found), about_floor(found)]
        if self.unfinished:
            parts.append(f"Unfinished: {', '.join(map(str, self.unfinished))}.")
        if self.agreement is not None:
            parts.append(self.agreement.verdict)
        return " ".join(filter(None, parts))

    def to_json(self) -> dict[str, Any]:
        """The curve as plain data."""
        fields = summarised(self.answer)
        return {
            "name": self.name,
            "store": self.store,
            "experiment": self.experiment,
            "scale": self.scale,
            "panel": self.panel.name,
            "protocol": self.protocol,
            **fields,
            "unfinished": [
                {"T": job.T, "trials": job.trials, "note": job.note} for job in self.unfinished
            ],
            "reference": None if self.agreement is None else self.agreement.to_json(),
            "verdict": self.verdict,
        }


def threshold_panels(store: Store) -> tuple[Panel, ...]:
    """The panels that search for a threshold and have finished trials."""
    return tuple(
        panel
        for panel in store.experiment.panels
        if searches_for_threshold(panel)
        and any(store.counts(panel.name, T).trials for T in panel.T)
    )


def threshold_curves(
    stores: Sequence[Store],
    panel: str | None = None,
    *,
    names: Sequence[str] | None = None,
    references: Path | None = None,
) -> tuple[ThresholdCurve, ...]:
    """All curves of the stores, or of the panels called `panel`, each once.

    Raises `InputError` without such a curve, naming the existing panels.
    """
    stems = list(names) if names is not None else told_apart([s.path.stem for s in stores])
    found: list[ThresholdCurve] = []
    for store, stem in zip(stores, stems, strict=True):
        panels = [p for p in threshold_panels(store) if panel in (None, p.name)]
        lone = panel is not None or len(panels) == 1
        for chosen in panels:
            name = "/".join(
                part
                for part in (stem if len(stores) > 1 or lone else "", "" if lone else chosen.name)
                if part
            )
            found.append(_curve(store, stem, chosen, name, references))
    if not found:
        raise InputError(_none_found(stores, panel))
    return tuple(found)


def _curve(
    store: Store, stem: str, panel: Panel, name: str, references: Path | None
) -> ThresholdCurve:
    own = thresholds(store, panel.name)
    every = (*own, *from_reference(panel, own, references))
    said = answer(tuple(sorted(every, key=lambda t: t.T)))
    experiment = store.experiment
    return ThresholdCurve(
        name=name,
        store=stem,
        panel=panel,
        experiment=experiment.name,
        scale=experiment.scale,
        answer=said,
        unfinished=tuple(job for job in store.unfinished() if job.panel == panel.name),
        agreement=agreement_with(panel, said, folder=references, but_not=store.path),
    )


def _none_found(stores: Sequence[Store], panel: str | None) -> str:
    known = sorted({p.name for store in stores for p in store.experiment.panels})
    names = ", ".join(str(store.path) for store in stores)
    if panel is not None and panel not in known:
        return f"panel: wanted one of {', '.join(known)}, got {panel!r}"
    return f"{names}: no finished trials of a search over m yet"


def told_apart(stems: Sequence[str]) -> list[str]:
    """Names of files, with a number if a name occurs twice."""
    return [
        stem if stems[:i].count(stem) == 0 else f"{stem}-{stems[:i].count(stem) + 1}"
        for i, stem in enumerate(stems)
    ]
