"""Thresholds of a sweep: m*(T) with its interval, beside the m of the best learner.

An interval comes from a smooth model of the success curve, which also gives a crossing of 80 %
between two tried m. But a curve with a sudden rise may cross anywhere between them: the trials only
show that success does not fall. So the ends of an interval are moved outwards to tried m
(`to_tried`).
"""

import math
from dataclasses import dataclass, replace

from capax.analysis.falling import LEVEL, SUSPECTED, falling
from capax.analysis.floor import Floor, Protocol, floor
from capax.data.task import TaskSpec
from capax.errors import InputError
from capax.html import html_table
from capax.sweep.experiments.spec import Experiment, Panel
from capax.sweep.searching.counts import TARGET, Counts, isotonic_threshold
from capax.sweep.searching.curve import CurveGrid, Estimate, estimate
from capax.sweep.searching.search import AdaptiveSearch
from capax.sweep.storage.store import Store

_LEAST_VALUES = 4
"""A grid with fewer values of m is a set of curves, not a search for a threshold."""


@dataclass(frozen=True)
class Threshold:
    """m*(T): `low` and `high` bound it with 95% confidence, `None` on an open side; `low - 1` and
    `high` are tried m.

    `m_star` is `None` if the trials do not support a number; `status` is then the conclusion:
    "closed", "<= 16", "> 993", "open", or "does not reach 80 % for any m tried". `peak` is the m
    from which success falls, if it does. `plateau` is the estimated success rate with plenty of
    examples. `isotonic` is m* without a model of the curve; `floor` the m of the best possible
    learner (`None` for learners without a task); `counts` all outcomes, `rising` the outcomes that
    count for m*: up to the peak also if a fall is only suspected; `log_width` is log(high / low) of
    the model, before its ends were moved; `reference` is the name of the reference with these
    trials, empty for trials of the store itself.

    Examples:
        >>> import capax, tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "known.toml").write_text('family = "simulated"\\nT = [10, 100, 1000]')
        >>> said = capax.thresholds(capax.sweep(folder / "known.toml", folder / "known.sqlite"))
        >>> said.thresholds[0].T
        10
    """

    panel: str
    T: int
    m_star: int | None
    low: int | None
    high: int | None
    status: str
    floor: Floor | None
    trials: int
    isotonic: int | None
    plateau: float
    peak: int | None
    target: float
    counts: Counts
    rising: Counts
    log_width: float | None = None
    reference: str = ""

    @property
    def ratio(self) -> float | None:
        """m* over the best learner's; only if m* is bounded on both sides."""
        if self.m_star is None or self.status != "closed" or not (self.floor and self.floor.m):
            return None
        return self.m_star / self.floor.m

    def _repr_html_(self) -> str:
        """m*(T) in a notebook, with its interval and its trials."""
        ends = [("open" if end is None else str(end)) for end in (self.low, self.high)]
        rows = (
            ("T", self.T),
            ("m*", "none" if self.m_star is None else self.m_star),
            ("95% interval", f"{ends[0]} to {ends[1]} ({self.status})"),
            ("trials", self.trials),
            ("floor", "none" if self.floor is None else f"{self.floor.m} ({self.floor.label})"),
        )
        return html_table(rows, title=f"Threshold at {100 * self.target:g} % success")

    def _repr_latex_(self) -> str:
        """m*(T) as a formula."""
        star = r"\text{none}" if self.m_star is None else str(self.m_star)
        low, high = ("?" if end is None else str(end) for end in (self.low, self.high))
        return rf"$m^*({self.T}) = {star}\quad[{low}, {high}]$"


def stated(found: Estimate, target: float = TARGET) -> str:
    """An estimate of m* in a few words."""
    if found.low is not None and found.high is not None:
        return "closed"
    if found.levelled:
        return f"does not reach {target:.0%} for any m tried".replace("%", " %")
    if found.low is not None:
        return f"> {found.low - 1}"
    return "open" if found.high is None else f"<= {found.high}"


def to_tried(found: Estimate, tried: tuple[int, ...]) -> Estimate:
    """The interval with its ends moved outwards: above one tried m, up to another one."""
    low, high = found.low, found.high
    if low is not None:
        low = max((m for m in tried if m < low), default=low - 1) + 1
    if high is not None:
        high = min((m for m in tried if m >= high), default=high)
    return replace(found, low=low, high=high)


def threshold_of(
    panel: str, T: int, counts: Counts, *, target: float = TARGET, floor: Floor | None = None
) -> Threshold:
    """m* of the outcomes at one T."""
    fall = falling(counts, SUSPECTED)
    rising = counts if fall is None else counts.up_to(fall.peak)
    shown = fall is not None and fall.p_value < LEVEL
    smooth = estimate(CurveGrid.fitted(rising, target), rising)
    result = to_tried(smooth, rising.m)
    return Threshold(
        panel=panel,
        T=T,
        m_star=result.m_star,
        low=result.low,
        high=result.high,
        status=stated(result, target),
        floor=floor,
        trials=counts.trials,
        isotonic=isotonic_threshold(rising, target),
        plateau=result.plateau,
        peak=fall.peak if fall is not None and shown else None,
        target=target,
        counts=counts,
        rising=rising,
        log_width=None if result.log_width == math.inf else smooth.log_width,
    )


def threshold_panel(experiment: Experiment, name: str | None = None) -> Panel:
    """The panel called `name`, or the first that searches for a threshold."""
    for panel in experiment.panels:
        if panel.name == name or (name is None and searches_for_threshold(panel)):
            return panel
    known = ", ".join(panel.name for panel in experiment.panels)
    wanted = "one that searches over m" if name is None else f"{name!r}"
    raise InputError(f"panel: wanted {wanted}; the panels are {known}")


def searches_for_threshold(panel: Panel) -> bool:
    """Does the panel search for m*? Not with fresh samples, kept models, or a few values of m."""
    if panel.training.get("mode") == "online" or panel.keep_parameters:
        return False
    search = panel.search
    return isinstance(search, AdaptiveSearch) or len(set(search.m)) >= _LEAST_VALUES


def thresholds(
    store: Store, panel: str | None = None, *, floors: bool = True
) -> tuple[Threshold, ...]:
    """m*(T) at every T of a panel that has finished trials, in the order of T.

    `floors`: also the m of the best learner, which takes a simulation.
    Raises `InputError` when the store holds no such panel or no finished trial of it.
    """
    chosen = threshold_panel(store.experiment, panel)
    found = []
    for T in sorted(chosen.T):
        counts = store.counts(chosen.name, T)
        if counts.trials:
            found.append(
                threshold_of(
                    chosen.name,
                    T,
                    counts,
                    target=panel_target(chosen),
                    floor=panel_floor(chosen, T) if floors else None,
                )
            )
    if not found:
        raise InputError(f"{store.path}: no finished trials of {chosen.name} yet")
    return tuple(found)


def panel_target(panel: Panel) -> float:
    """The success probability of a panel's threshold."""
    return panel.search.target if isinstance(panel.search, AdaptiveSearch) else TARGET


def panel_task(panel: Panel, T: int, m: int = 1) -> TaskSpec | None:
    """The task of a panel at (T, m); `None` without a known rule: simulated, or from a file."""
    unknown = panel.family == "simulated" or "data" in panel.task
    return None if unknown else TaskSpec(**panel.task, T=T, m=m)


def panel_protocol(panel: Panel, task: TaskSpec) -> Protocol:
    """The protocol of the panel's trials, for the floor."""
    return Protocol(
        guesses=panel.restarts,
        rejection=task.reject_ambiguous,
        noise=task.noise,
        supports=task.support if task.support in ("random", "contiguous") else "fixed",
        accuracy=panel.training.get("success", {}).get("accuracy", 1.0),
        validation_size=task.validation_size,
    )


def panel_floor(panel: Panel, T: int) -> Floor | None:
    """The best possible learner's threshold on the panel's task, under the panel's protocol."""
    task = panel_task(panel, T)
    if task is None or task.alphabet > 2:
        return None  # the floors are for bits
    protocol = panel_protocol(panel, task)
    return floor(task.function, T, task.probability, panel_target(panel), protocol=protocol)
