"""From a store to Figure 2: thresholds, laws with their bands, and what a best learner needs."""

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from capax.analysis.scaling import Fit, Point, Scaling
from capax.analysis.summary import closed_points, floor_ratio, scaling_of
from capax.analysis.threshold import Threshold, panel_task, threshold_panel, thresholds
from capax.boolean.disagreement import union_sample_size
from capax.boolean.one_rule_left import probability_one_left
from capax.boolean.parser import parse
from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.figures.stored_runs import describe_task
from capax.figures.threshold_scaling import (
    TARGET,
    FittedLaw,
    ReferenceCurve,
    SuccessRates,
    ThresholdPoint,
    ThresholdScaling,
)
from capax.identity import key_words
from capax.sweep.spec import Panel
from capax.sweep.store import Store

_Z = 1.959963984540054
_LAW_NAMES = {
    "constant": "constant",
    "log": "log T",
    "linear": "linear in T",
    "power": "power of T",
}


def threshold_scaling(store: Store, panel: str | None = None) -> ThresholdScaling:
    """Figure 2 of the panel called `panel`, or of the first that searches for a threshold.

    Raises `InputError` when the store has no such panel or no finished trial of it.
    """
    chosen = threshold_panel(store.experiment, panel)
    found = thresholds(store, chosen.name)
    scaling = scaling_of(found)
    task = panel_task(chosen, found[0].T)
    return ThresholdScaling(
        task=describe_task({"task": {"function": task.function}} if task else {}),
        p=task.probability if task else None,
        points=tuple(ThresholdPoint(t.T, t.m_star, t.low, t.high, t.trials) for t in found),
        rates=tuple(SuccessRates(t.T, t.counts.m, t.counts.solved, t.counts.total) for t in found),
        laws=_laws(scaling, found) if scaling else (),
        references=_references(chosen, found),
        verdict=_verdict(scaling, found),
    )


def _verdict(scaling: Scaling | None, found: tuple[Threshold, ...]) -> str:
    text = scaling.verdict if scaling else "Too few closed intervals to compare laws."
    ratio = floor_ratio(found)
    return text if ratio is None else f"{text} m* is {ratio:.1f} times what the best learner needs."


def _laws(scaling: Scaling, found: tuple[Threshold, ...]) -> tuple[FittedLaw, ...]:
    """All laws on a grid over the measured range, the best first and with its band."""
    points = closed_points(found)
    grid = np.geomspace(found[0].T, found[-1].T, 80)
    return tuple(_law(fit, grid, points, banded=fit is scaling.best) for fit in scaling.fits)


def _law(
    fit: Fit, grid: Float[ndarray, " n"], points: tuple[Point, ...], *, banded: bool
) -> FittedLaw:
    m = fit.predict(grid)
    error = prediction_error(fit, grid, points) if banded else None
    return FittedLaw(
        name=_LAW_NAMES[fit.law],
        formula=fit.formula,
        weight=fit.weight,
        parameters=fit.parameters,
        T=grid,
        m=m,
        low=None if error is None else m - _Z * error,
        high=None if error is None else m + _Z * error,
    )


def prediction_error(
    fit: Fit, grid: Float[ndarray, " n"], points: tuple[Point, ...]
) -> Float[ndarray, " n"] | None:
    """Standard error of a law that is linear in its parameters; `None` for the power law.

    With x(T) the columns of the law, X those at the measured T and Σ their variances, the variance
    of the fitted m*(T) is x(T)ᵀ (Xᵀ Σ⁻¹ X)⁻¹ x(T).
    """
    columns = {
        "constant": lambda T: np.stack([np.ones_like(T)], axis=1),
        "log": lambda T: np.stack([np.ones_like(T), np.log(T)], axis=1),
        "linear": lambda T: np.stack([np.ones_like(T), T], axis=1),
    }.get(fit.law)
    if columns is None:
        return None
    measured = columns(np.array([float(point.T) for point in points]))
    scaled = measured / np.array([point.error for point in points])[:, None]
    covariance = np.linalg.pinv(scaled.T @ scaled)
    wanted = columns(grid)
    return np.sqrt(np.einsum("ni,ij,nj->n", wanted, covariance, wanted))


def _references(panel: Panel, found: tuple[Threshold, ...]) -> tuple[ReferenceCurve, ...]:
    """The best learner, the sample that leaves one rule, and its union bound; at the measured T."""
    tasks = [panel_task(panel, threshold.T) for threshold in found]
    known = [(t, task) for t, task in zip(found, tasks, strict=True) if task and t.floor]
    if not known:
        return ()
    T = np.array([float(t.T) for t, _ in known])
    best = np.array([float(t.floor or 0) for t, _ in known])
    one_left = np.array([_one_rule_left(task) for _, task in known])
    references = [ReferenceCurve("best learner", T, best)]
    if np.all(np.isfinite(one_left)):
        references.append(ReferenceCurve("one rule left", T, one_left))
    union = np.array([float(_union(task)) for _, task in known])
    return (*references, ReferenceCurve("union bound", T, union))


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
