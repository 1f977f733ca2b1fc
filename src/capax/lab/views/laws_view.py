"""The view Laws: m*(T) of the reference learners, published points, own stores and cards."""

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from capax.data.spec_base import Spec

if TYPE_CHECKING:
    from capax.cards.answers.card_rows import Card


class LawsQuestion(Spec):
    """The target and the accuracy whose thresholds are shown."""

    target: str = Field(default="and3", max_length=4096)
    accuracy: float = Field(default=1.0, gt=0, le=1)


class ReferenceQuestion(Spec):
    """A reference store by its name."""

    name: str = Field(max_length=200)


def laws_answer(question: LawsQuestion) -> dict[str, Any]:
    """The thresholds of all reference learners, the published points and the names of the stores.

    The published points belong to AND of 3 bits at more than 99 %; they are given for that target.
    """
    from capax.analysis.reference.published import published
    from capax.analysis.reference.reference_stores import references
    from capax.cards.answers.reference_card import reference_card

    card = reference_card()
    found = {"name": "reference learners", **card_part(card, question)}
    points = published() if question.target == "and3" else None
    stores = [
        {"name": entry.name, "experiment": entry.experiment, "trials": entry.trials,
         "command": f"capax reference show {entry.name} --json"}
        for entry in references()
        if entry.has_thresholds
    ]  # fmt: skip
    return {
        "card": found,
        "targets": list(card.target_names),
        "accuracies": sorted({row.accuracy for row in card.rows}, reverse=True),
        "published": None if points is None else [asdict(point) for point in points.figure2],
        "estimator": None if points is None else points.figure2_estimator,
        "command": "capax reference show learners --json",
        "published_command": "capax reference show published --json",
        "references": stores if question.target == "and3" else [],
    }


def card_part(card: "Card", question: LawsQuestion) -> dict[str, Any]:
    """Rows, notes and laws of a card for one target and accuracy."""
    target, accuracy = question.target, question.accuracy
    rows = [r for r in card.rows if r.target == target and r.accuracy == accuracy]
    laws = [w for w in card.laws if w.target == target and w.accuracy == accuracy]
    return {
        "rows": [{**asdict(row), "note": card.note(row)} for row in rows],
        "laws": [asdict(law) for law in laws],
    }


def reference_answer(question: ReferenceQuestion) -> dict[str, Any]:
    """The curves of a reference store, as `capax reference show NAME --json` gives them."""
    from capax.analysis.reference.reference_stores import reference

    return {"curves": _curves(reference(question.name).path)}


@lru_cache(maxsize=8)
def _curves(path: Path) -> list[dict[str, Any]]:
    return store_curves(path)


def store_curves(path: Path) -> list[dict[str, Any]]:
    """The curves of any store, as `capax thresholds STORE --json` gives them."""
    from capax.analysis.reference.threshold_curves import threshold_curves
    from capax.sweep.storage.store import Store

    with Store.read(path) as store:
        return [curve.to_json() for curve in threshold_curves([store])]
