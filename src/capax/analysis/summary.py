"""The answer of a threshold sweep as one plain object: per T the threshold, then the law."""

import math
from dataclasses import asdict, replace
from typing import Any

from capax.analysis.scaling import Point, Scaling, fit_scaling
from capax.analysis.threshold import Threshold, thresholds
from capax.sweep.store import Store

_LEAST_POINTS = 3


def summarise(store: Store, panel: str | None = None) -> dict[str, Any]:
    """`thresholds` (T, m_star, low, high, floor, trials, ...) and `fit` (law, parameters, ...)."""
    found = thresholds(store, panel)
    return {
        "experiment": store.experiment.name,
        "scale": store.experiment.scale,
        "panel": found[0].panel,
        "thresholds": [_row(threshold) for threshold in found],
        "fit": _fit(found),
    }


def closed_points(found: tuple[Threshold, ...]) -> tuple[Point, ...]:
    """The thresholds whose interval is closed on both sides: those a law can be fitted to."""
    return tuple(
        Point(t.T, float(t.m_star), float(t.low), float(t.high))
        for t in found
        if t.low is not None and t.high is not None
    )


def scaling_of(found: tuple[Threshold, ...]) -> Scaling | None:
    """The laws fitted to a sweep's thresholds; `None` with fewer than three closed intervals."""
    points = closed_points(found)
    if len(points) < _LEAST_POINTS:
        return None
    scaling = fit_scaling(points)
    fitted = {point.T for point in points}
    missing = ", ".join(str(t.T) for t in found if t.T not in fitted)
    note = f" Left out of the fit, interval open: T = {missing}." if missing else ""
    return replace(scaling, verdict=scaling.verdict + note)


def floor_ratio(found: tuple[Threshold, ...]) -> float | None:
    """Geometric mean of m*/floor: how many times more than the best learner is needed."""
    logs = [math.log(t.m_star / t.floor) for t in found if t.floor]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _row(threshold: Threshold) -> dict[str, Any]:
    row = {name: value for name, value in asdict(threshold).items() if name != "panel"}
    return {**row, "ratio": threshold.m_star / threshold.floor if threshold.floor else None}


def _fit(found: tuple[Threshold, ...]) -> dict[str, Any]:
    scaling = scaling_of(found)
    if scaling is None:
        verdict = "Too few thresholds with a closed interval to compare laws: three are needed."
        return {
            "law": None,
            "parameters": [],
            "weights": {},
            "verdict": verdict,
            "floor_ratio": floor_ratio(found),
            "laws": [],
        }
    return {
        "law": scaling.best.law,
        "parameters": [asdict(parameter) for parameter in scaling.best.parameters],
        "weights": {fit.law: fit.weight for fit in scaling.fits},
        "verdict": scaling.verdict,
        "floor_ratio": floor_ratio(found),
        "laws": [asdict(fit) for fit in scaling.fits],
    }
