"""From a store to Figure 2: thresholds, laws with their bands, and the best learner's m."""

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from capax.analysis.laws import Fit
from capax.analysis.reference.threshold_curves import ThresholdCurve, threshold_curves
from capax.analysis.scaling import Scaling
from capax.analysis.threshold import Threshold, panel_task, threshold_panel
from capax.boolean.best_possible.disagreement import union_sample_size
from capax.boolean.best_possible.one_rule_left import probability_one_left
from capax.boolean.parser import parse
from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.figures.experiments.reference_band import context_of
from capax.figures.experiments.threshold_scaling import (
    TARGET,
    FittedLaw,
    ReferenceCurve,
    SuccessRates,
    ThresholdPoint,
    ThresholdScaling,
)
from capax.figures.stored.runs import describe_task
from capax.identity import key_words
from capax.sweep.experiments.spec import Panel
from capax.sweep.storage.store import Store

_LAW_NAMES = {
    "constant": "constant",
    "log": "log T",
    "linear": "linear in T",
    "power": "power of T",
}


def threshold_scaling(store: Store, panel: str | None = None) -> ThresholdScaling:
    """Figure 2 of the panel called `panel`, or of the first panel with a threshold search.

    Raises `InputError` if the store has no such panel, or no finished trial of it.
    """
    chosen = threshold_panel(store.experiment, panel)
    return curve_scaling(threshold_curves([store], chosen.name)[0])


def curve_scaling(curve: ThresholdCurve) -> ThresholdScaling:
    """Figure 2 of a curve."""
    said = curve.answer
    found = said.thresholds
    task = panel_task(curve.panel, found[0].T)
    return ThresholdScaling(
        task=describe_task({"task": {"function": task.function}} if task else {}),
        p=task.probability if task and task.alphabet == 2 else None,
        points=tuple(_point(t) for t in found),
        rates=tuple(
            SuccessRates(t.T, t.counts.m, t.counts.solved, t.counts.total)
            for t in found
            if not t.reference
        ),
        laws=_laws(said.scaling, found) if said.scaling else (),
        references=_references(curve.panel, found),
        verdict=curve.verdict,
        status=said.scaling.status if said.scaling else "too few T",
        left=said.scaling.left if said.scaling else None,
        context=context_of(curve.agreement),
        protocol=curve.protocol,
    )


def _point(t: Threshold) -> ThresholdPoint:
    known = (t.m_star, t.low, t.high, t.trials, t.status, t.ratio, bool(t.reference))
    return ThresholdPoint(t.T, *known)


def _laws(scaling: Scaling, found: tuple[Threshold, ...]) -> tuple[FittedLaw, ...]:
    """All laws on a grid over the measured range, the best first and with its band."""
    grid = np.geomspace(found[0].T, found[-1].T, 80)
    rest = [fit for fit in scaling.fits if fit is not scaling.best]
    return (
        _law(scaling.best, grid, scaling, banded=True),
        *(_law(fit, grid, scaling, banded=False) for fit in rest),
    )


def _law(fit: Fit, grid: Float[ndarray, " n"], scaling: Scaling, *, banded: bool) -> FittedLaw:
    band = fit.band(grid) if banded else None
    return FittedLaw(
        name=_LAW_NAMES[fit.law],
        formula=fit.formula,
        weight=fit.weight,
        parameters=fit.parameters,
        T=grid,
        m=fit.predict(grid),
        low=None if band is None else band[0],
        high=None if band is None else band[1],
        p_fit=fit.p_fit,
        ruled_out=fit.law in scaling.ruled_out,
    )


def _references(panel: Panel, found: tuple[Threshold, ...]) -> tuple[ReferenceCurve, ...]:
    """Samples for the best learner, for one rule left, and its union bound; at the measured T."""
    tasks = [panel_task(panel, threshold.T) for threshold in found]
    known = [(t.T, t.floor, task) for t, task in zip(found, tasks, strict=True) if task and t.floor]
    if not known:
        return ()
    T = np.array([float(length) for length, _, _ in known])
    best = np.array([float(floor.m) for _, floor, _ in known])
    one_left = np.array([_one_rule_left(task) for _, _, task in known])
    references = [ReferenceCurve(known[0][1].label, T, best)]
    if any(task.support != "random" or task.noise for _, _, task in known):
        return tuple(references)  # the other two need clean labels and all supports
    if np.all(np.isfinite(one_left)):
        references.append(ReferenceCurve("one rule left in 80%", T, one_left))
    union = np.array([float(_union(task)) for _, _, task in known])
    return (*references, ReferenceCurve("one rule, union bound", T, union))


def _union(task: TaskSpec) -> int:
    return union_sample_size(parse(task.function), task.T, 1 - TARGET, task.probability)


def _one_rule_left(task: TaskSpec) -> float:
    """Smallest m with P(|V_m| = 1) >= 0.8, by the lower side of its sandwich.

    At most the union bound. Not a number for functions other than AND and OR.
    """
    f, p = parse(task.function), task.probability
    low, high = 0, _union(task)
    key = key_words([task.function, task.T, p], "one rule left")
    try:
        while high - low > 1:
            middle = (low + high) // 2
            reached = probability_one_left(f, task.T, middle, p, key=key).lower >= TARGET
            low, high = (low, middle) if reached else (middle, high)
    except InputError:
        return math.nan
    return float(high)
