"""Do new thresholds agree with a reference, and with the number the paper published?

A reference is compared only where it is the same experiment: task, model and protocol, field by
field, defaults written out. At a T that both have measured, the two intervals are compared; at
another T inside the reference's range, the interval with the band of the reference's law. On the
log scale the difference of two estimates has the variance s1² + s2², with s = log(high/low)/(2 z);
they differ when it exceeds the normal quantile at level 5% shared among the T (Bonferroni). A side
that is open counts only where it leaves the other interval on the wrong side.
"""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from capax.analysis.reference import FOLDER, Reference, references
from capax.analysis.summary import Answer, answer
from capax.analysis.threshold import searches_for_threshold, thresholds
from capax.errors import CapaxError
from capax.sweep.families import family_of
from capax.sweep.spec import Panel
from capax.sweep.storage.store import Store

_Z = NormalDist().inv_cdf(0.975)
_NOT_IDENTITY = {"task": ("T", "m", "seed", "max_tries"), "model": ("T",)}


@dataclass(frozen=True)
class Interval:
    """m* with its 95% interval; `None` where it is open.

    log_width: log(high / low) before the ends were moved to m that were tried, where they were: two
    estimates on the same m err alike between them.
    """

    m: float | None
    low: float | None
    high: float | None
    log_width: float | None = None

    def __str__(self) -> str:
        sides = ("open" if side is None else f"{side:.0f}" for side in (self.low, self.high))
        return f"{'no m*' if self.m is None else f'{self.m:.0f}'} [{', '.join(sides)}]"

    @property
    def error(self) -> float | None:
        """Standard error of log m*; `None` unless both sides are closed."""
        if not self.low or not self.high:
            return None
        width = math.log(self.high / self.low) if self.log_width is None else self.log_width
        return width / (2 * _Z)


PUBLISHED_T = 300
PUBLISHED = Interval(70.0, 63.0, 77.0)
"""The paper's Figure 3: "the threshold at T = 300 is about 70"; about is read as within 10%."""


@dataclass(frozen=True)
class Compared:
    """One T: ours, the other's, and whether they agree."""

    T: int
    mine: Interval
    other: Interval
    agrees: bool


@dataclass(frozen=True)
class Agreement:
    """Thresholds beside a reference (`None` where no reference fits) and the published number."""

    reference: Reference | None
    answer: Answer | None
    rows: tuple[Compared, ...]
    published: Compared | None
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """As plain data, the reference by its name and command."""
        chosen = self.reference
        return {
            "name": chosen.name if chosen else None,
            "command": chosen.command if chosen else None,
            "device": chosen.device if chosen else None,
            "rows": [asdict(row) for row in self.rows],
            "published": asdict(self.published) if self.published else None,
            "verdict": self.verdict,
        }


def agreement_with(panel: Panel, said: Answer, *, folder: Path = FOLDER) -> Agreement | None:
    """Compare with the reference that covers most of our T; `None` where nothing compares."""
    lengths = [t.T for t in said.thresholds]
    found = [(entry, other) for entry in references(folder) if (other := _same(entry, panel))]
    rows: tuple[Compared, ...] = ()
    chosen, theirs = None, None
    for entry, other in found:
        here = _compared(said, other, lengths)
        if len(here) > len(rows) or chosen is None:
            chosen, theirs, rows = entry, other, here
    published = _published(panel, said)
    if chosen is None and published is None:
        return None
    words = [_about_reference(chosen, rows)] if chosen else []
    words += [_about_published(published)] if published else []
    return Agreement(chosen, theirs, rows, published, " ".join(words))


def protocol(panel: Panel) -> dict[str, Any] | None:
    """Task, model and protocol with defaults written out; `None` if the settings do not hold up."""
    try:
        spec = family_of(panel).trial(panel, panel.T[0], 1, 0).spec.model_dump(mode="json")
    except (CapaxError, AttributeError):
        return None
    for part in ("T", "m", "seed"):
        spec.pop(part, None)
    for part, names in _NOT_IDENTITY.items():
        if isinstance(spec.get(part), dict):
            spec[part] = {k: v for k, v in spec[part].items() if k not in names}
    return {"family": panel.family, **spec}


def _same(entry: Reference, panel: Panel) -> Answer | None:
    """What the reference says about the panel's own experiment; `None` if it is another."""
    with Store.read(entry.path) as store:
        panels = store.experiment.panels
    for other in panels:
        if other.family != panel.family or not searches_for_threshold(other):
            continue  # told without the engine, which takes a second to load
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
    """m*(T) as measured, or by the law inside the measured range; `None` where nothing is known."""
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


def agree(mine: Interval, other: Interval, *, comparisons: int = 1) -> bool:
    """No difference beyond chance, at level 5% shared among `comparisons`."""
    one, two = mine.error, other.error
    if mine.m and other.m and one is not None and two is not None:
        limit = NormalDist().inv_cdf(1 - 0.025 / comparisons)
        return abs(math.log(mine.m / other.m)) <= limit * math.hypot(one, two)
    below = mine.high is not None and other.low is not None and mine.high < other.low
    above = mine.low is not None and other.high is not None and mine.low > other.high
    return not (below or above)


def _published(panel: Panel, said: Answer) -> Compared | None:
    """The paper's own number, where the question is the paper's: 3-bit AND, one layer."""
    asked = panel.family == "transformer" and panel.task.get("function", "and3") == "and3"
    asked = asked and "data" not in panel.task
    if not asked or panel.model.get("layers", 1) != 1 or panel.task.get("p", "balanced") == 0.5:
        return None
    mine = at(said, PUBLISHED_T)
    if mine is None:
        return None
    return Compared(PUBLISHED_T, mine, PUBLISHED, agree(mine, PUBLISHED))


def _about_reference(chosen: Reference, rows: tuple[Compared, ...]) -> str:
    if not rows:
        return f"The reference {chosen} has no T in common with these thresholds."
    wrong = [row for row in rows if not row.agrees]
    if not wrong:
        where = f"T = {rows[0].T}" if len(rows) == 1 else f"all {len(rows)} T"
        return f"Agrees with the reference {chosen} at {where}."
    named = "; ".join(f"T = {row.T}: {row.mine} against {row.other}" for row in wrong)
    return f"Differs from the reference {chosen} at {len(wrong)} of {len(rows)} T: {named}."


def _about_published(row: Compared) -> str:
    how = "agrees" if row.agrees else "does not agree"
    return f"The paper reports about 70 at T = {row.T}: {row.mine} {how}."
