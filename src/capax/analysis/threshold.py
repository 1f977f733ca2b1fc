"""Thresholds of a sweep: m*(T) with its interval, beside what the best learner would need."""

from dataclasses import dataclass

from capax.analysis.floor import floor
from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.sweep.curve import Counts, CurveGrid, estimate, isotonic_threshold
from capax.sweep.search import AdaptiveSearch
from capax.sweep.spec import Experiment, Panel
from capax.sweep.store import Store

_LEAST_VALUES = 4
"""A grid with fewer values of m is a set of curves, not a search for a threshold."""


@dataclass(frozen=True)
class Threshold:
    """m*(T): `low` and `high` bound it with 95% confidence, `None` where the data leave it open.

    `isotonic` is the same number without a model of the curve; `floor` what the best possible
    learner needs (`None` for learners without a task); `counts` the outcomes behind it all.
    """

    panel: str
    T: int
    m_star: int
    low: int | None
    high: int | None
    floor: int | None
    trials: int
    isotonic: int | None
    sigma: float
    lapse: float
    counts: Counts


def threshold_panel(experiment: Experiment, name: str | None = None) -> Panel:
    """The panel called `name`, or the first that searches for a threshold."""
    for panel in experiment.panels:
        search = panel.search
        searches = isinstance(search, AdaptiveSearch) or len(set(search.m)) >= _LEAST_VALUES
        if panel.name == name or (name is None and searches):
            return panel
    known = ", ".join(panel.name for panel in experiment.panels)
    wanted = "one that searches over m" if name is None else f"{name!r}"
    raise InputError(f"panel: wanted {wanted}, got the panels {known}")


def thresholds(store: Store, panel: str | None = None) -> tuple[Threshold, ...]:
    """m*(T) at every T of a panel that has finished trials, in the order of T.

    Raises `InputError` when the store holds no such panel or no finished trial of it.
    """
    chosen = threshold_panel(store.experiment, panel)
    found = []
    for T in sorted(chosen.T):
        known = store.known(chosen.name, T)
        if known:
            found.append(_threshold(chosen, T, Counts.of([(m, s) for (m, _), s in known.items()])))
    if not found:
        raise InputError(f"{store.path}: wanted finished trials of {chosen.name}, got none yet")
    return tuple(found)


def _threshold(panel: Panel, T: int, counts: Counts) -> Threshold:
    result = estimate(_grid(panel), counts)
    return Threshold(
        panel=panel.name,
        T=T,
        m_star=result.m_star,
        low=result.low,
        high=result.high,
        floor=panel_floor(panel, T),
        trials=counts.trials,
        isotonic=isotonic_threshold(counts),
        sigma=result.sigma,
        lapse=result.lapse,
        counts=counts,
    )


def _grid(panel: Panel) -> CurveGrid:
    """Where m* may lie: the range of the search, or the grid's range with a margin."""
    search = panel.search
    if isinstance(search, AdaptiveSearch):
        return CurveGrid.fine(search.m_low, search.m_high, search.target)
    return CurveGrid.fine(max(1, int(min(search.m) / 1.5)), int(max(search.m) * 1.5) + 1)


def panel_task(panel: Panel, T: int, m: int = 1) -> TaskSpec | None:
    """The task of a panel at (T, m); `None` for a simulated learner."""
    return None if panel.family == "simulated" else TaskSpec(**panel.task, T=T, m=m)


def panel_floor(panel: Panel, T: int) -> int | None:
    """The best possible learner's threshold on the panel's task."""
    task = panel_task(panel, T)
    if task is None:
        return None
    target = panel.search.target if isinstance(panel.search, AdaptiveSearch) else 0.8
    return floor(task.function, T, task.probability, target)
