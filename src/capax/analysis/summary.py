"""The answer of a threshold sweep as one plain object: per T the threshold, then the law."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from capax.analysis.falling import PlateauFall, plateau_falling
from capax.analysis.laws import Fit
from capax.analysis.positions import positions
from capax.analysis.scaling import LEAST_LENGTHS, Scaling, fit_scaling
from capax.analysis.threshold import Threshold, thresholds
from capax.html import html_table
from capax.sweep.storage.store import Store


@dataclass(frozen=True)
class Answer:
    """The answer of a sweep: thresholds, laws (`None` with fewer than three T), a verdict in words.

    `unreached`: the T at which no m tried reaches the target; `plateau_fall`: success levels off
    lower as T grows.
    """

    thresholds: tuple[Threshold, ...]
    scaling: Scaling | None
    unreached: tuple[int, ...]
    plateau_fall: PlateauFall | None
    verdict: str

    @property
    def settled(self) -> bool:
        return self.scaling is not None and self.scaling.status == "settled" and not self.unreached

    def _repr_html_(self) -> str:
        """Every T in a notebook, and the verdict below."""
        rows = [
            (t.T, "none" if t.m_star is None else t.m_star, _interval(t), t.trials)
            for t in self.thresholds
        ]
        return html_table(rows, head=("T", "m*", "95% interval", "trials"), notes=(self.verdict,))


def _interval(found: Threshold) -> str:
    return f"{found.low} to {found.high}" if found.status == "closed" else found.status


def answer(found: tuple[Threshold, ...]) -> Answer:
    """Compare the laws on all trials of the thresholds, and state the result.

    A T whose curve levels off below the target has no m*, and no law includes it. It is named, and
    the laws are compared at the other T. All trials count, also if a fall of success with m is only
    suspected: leaving out trials after a lucky m would bias the laws.
    """
    levelled = tuple(t.T for t in found if t.status.startswith("does not reach"))
    rest = tuple(t for t in found if t.T not in levelled)
    scaling = None
    if len({t.T for t in rest}) >= LEAST_LENGTHS:
        curves = [(t.T, t.counts if t.peak is None else t.rising) for t in rest]
        scaling = fit_scaling(positions(curves, rest[0].target))
    fall = plateau_falling(tuple((t.T, t.rising) for t in found))
    return Answer(found, scaling, levelled, fall, _words(found, scaling, levelled, fall))


def _words(
    found: tuple[Threshold, ...],
    scaling: Scaling | None,
    levelled: tuple[int, ...],
    fall: PlateauFall | None,
) -> str:
    few = "Too few T to compare laws: three with trials are needed."
    parts = [scaling.verdict if scaling else few]
    if levelled:
        target = f"{found[0].target:.0%}".replace("%", " %")
        where = ", ".join(str(T) for T in levelled)
        parts.insert(0, f"At T = {where} success does not reach {target} for any m tried.")
        if scaling:
            parts[1] = f"At the other T: {parts[1]}"
    for t in found:
        if t.peak is not None:
            parts.append(f"At T = {t.T} success falls from m = {t.peak} on.")
    if fall is not None:
        parts.append(
            f"With plenty of examples success falls with T, from {fall.first:.2f} at T = "
            f"{found[0].T} to {fall.last:.2f} at T = {found[-1].T}."
        )
    return " ".join(parts)


def summarise(store: Store, panel: str | None = None) -> dict[str, Any]:
    """`thresholds` (T, m_star, low, high, status, floor, ...) and `fit` (law, verdict, ...)."""
    said = answer(thresholds(store, panel))
    return {
        "experiment": store.experiment.name,
        "scale": store.experiment.scale,
        "panel": said.thresholds[0].panel,
        **summarised(said),
    }


def summarised(said: Answer) -> dict[str, Any]:
    """An answer as plain data: `thresholds` and `fit`."""
    return {
        "thresholds": [_row(threshold) for threshold in said.thresholds],
        "fit": _fit(said),
    }


def floor_ratio(found: tuple[Threshold, ...]) -> float | None:
    """Geometric mean of m*/(best learner's) over the closed thresholds."""
    logs = [math.log(t.ratio) for t in found if t.ratio]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _row(threshold: Threshold) -> dict[str, Any]:
    row = {
        name: value for name, value in asdict(threshold).items() if name not in ("panel", "rising")
    }
    return {**row, "ratio": threshold.ratio}


def _fit(said: Answer) -> dict[str, Any]:
    scaling = said.scaling
    return {
        "status": scaling.status if scaling else "too few T",
        "settled": said.settled,
        "law": scaling.law if scaling else None,
        "left": scaling.left if scaling else None,
        "ruled_out": list(scaling.ruled_out) if scaling else [],
        "parameters": [asdict(p) for p in scaling.best.parameters] if scaling else [],
        "weights": {fit.law: fit.weight for fit in scaling.fits} if scaling else {},
        "unreached": list(said.unreached),
        "plateau_fall": asdict(said.plateau_fall) if said.plateau_fall else None,
        "verdict": said.verdict,
        "floor_ratio": floor_ratio(said.thresholds),
        "laws": [_law(fit) for fit in scaling.fits] if scaling else [],
    }


def _law(fit: Fit) -> dict[str, Any]:
    names = ("law", "formula", "log_likelihood", "deviance", "p_fit", "p_power", "weight", "aic")
    row = {name: getattr(fit, name) for name in names}
    return {**row, "parameters": [asdict(p) for p in fit.parameters]}
