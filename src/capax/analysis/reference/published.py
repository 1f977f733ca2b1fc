"""The numbers that the paper published, and how ours compare with them.

The points of Figures 2, 3 and 4 were read from the vector graphics of the paper and are part of the
package (`capax reference show published`). A point of Figure 2 and its bar are the mean and the
standard deviation of an estimator of the authors: of 100 resamples of the trials, the smallest m of
the grid at which at least 80 % are solved. It differs from an m* read off a fitted curve by -1.5 to
4 examples, so thresholds are compared twice:

    resampled   the same estimator on our trials; at each T the difference over its deviation, the
                two bars added in squares, none taken smaller than the rounding to a grid of tens
    interval    our own m* with its 95% interval against the published point and bar, at level 5 %
                shared among all T

At T = 100 the published point is the smallest m tried: the threshold may lie below, and a smaller
one of ours is no difference. Agreement is stated point by point and by the sum of squares of all
differences (chi-square, one degree of freedom for each T) or by their mean, if all are on one side
(normal): twice the smaller of the two p-values, never from one number. Solved replicates are
compared with 24 of 40 by Fisher's exact test, times by the rank test of Mann and Whitney, in which
a run that never reaches the level comes last.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import chi2, fisher_exact, mannwhitneyu

from capax.analysis.intervals import Interval, agree
from capax.analysis.reference.reference_stores import FOLDER
from capax.analysis.threshold import Threshold
from capax.errors import InputError, require
from capax.identity import key_words
from capax.sweep.searching.counts import TARGET, Counts

NAME = "published"
RESAMPLES = 100
_ROUNDING = 10 / math.sqrt(12)
"""Deviation of a number rounded to a grid of tens."""
_LEAST_BAR = 4.0
"""Smallest deviation in the fits to the published points alone."""
_LEAST_TRIALS = 10
"""Fewest trials at every m for which a resampled share of 80 % is meaningful."""


@dataclass(frozen=True)
class PublishedPoint:
    """m*(T) of Figure 2 with its bar, one standard deviation to either side."""

    T: int
    m_star: float
    low: float
    high: float

    @property
    def deviation(self) -> float:
        return (self.high - self.low) / 2

    @property
    def at_most(self) -> bool:
        """Is the point the smallest m that was tried, so that m* may lie below?"""
        return self.deviation == 0


@dataclass(frozen=True)
class Published:
    """All numbers that were read from the paper's figures, and the method."""

    paper: str
    provenance: str
    figure2: tuple[PublishedPoint, ...]
    figure2_estimator: str
    figure2_grid: dict[str, Any]
    figure3: dict[str, Any]
    figure4: dict[str, Any]


@lru_cache(maxsize=1)
def published() -> Published:
    """The published points, from the file of the package."""
    data = json.loads((FOLDER / f"{NAME}.json").read_text(encoding="utf-8"))
    points = tuple(PublishedPoint(**row) for row in data.pop("figure2"))
    return Published(figure2=points, **data)


@dataclass(frozen=True)
class Resampled:
    """The published estimator on our trials; `unreached`: resamples in which no m suffices."""

    m_star: float
    deviation: float
    unreached: int


def resampled_threshold(
    counts: Counts, target: float = TARGET, *, resamples: int = RESAMPLES
) -> Resampled | None:
    """Mean and deviation of the smallest m tried with a share of at least `target`, resampled.

    Every resample draws the trials of each m anew, with replacement. `None` if some m has too few
    trials, or if half of the resamples or more reach the target at no m.
    """
    require(resamples >= 2, "resamples", "at least 2", resamples)
    if not counts.m or min(counts.total) < _LEAST_TRIALS:
        return None
    random = np.random.default_rng(key_words([counts.m, counts.solved, counts.total], "resampled"))
    total, solved = np.array(counts.total), np.array(counts.solved)
    shares = random.binomial(total, solved / total, size=(resamples, total.size)) / total
    reached = shares >= target - 1e-12
    some = reached.any(axis=1)
    if some.mean() <= 0.5:
        return None
    smallest = np.array(counts.m)[reached.argmax(axis=1)][some]
    return Resampled(float(smallest.mean()), float(smallest.std()), int((~some).sum()))


@dataclass(frozen=True)
class BesidePublished:
    """One T: the published point, our resampled estimate and our interval beside it.

    `deviations`: difference of the two resampled estimates over its deviation (`None` if ours is
    missing); `agrees`: our 95% interval against the published point.
    """

    T: int
    published: PublishedPoint
    resampled: Resampled | None
    deviations: float | None
    mine: Interval
    agrees: bool


@dataclass(frozen=True)
class PublishedAgreement:
    """All T that the paper measured too, with one p-value for all of them together.

    `chi_square`: sum of the squared deviations; `lean`: their sum over the root of their number,
    negative if our thresholds are smaller.
    """

    rows: tuple[BesidePublished, ...]
    within_two: int
    compared: int
    chi_square: float | None
    lean: float | None
    p_value: float | None

    @property
    def agrees(self) -> bool:
        """Whether no difference is shown, by the resampled estimates or else by the intervals."""
        if self.p_value is not None:
            return self.p_value >= 0.05
        return all(row.agrees for row in self.rows)

    @property
    def verdict(self) -> str:
        """In plain words, with the number of points."""
        inside = sum(row.agrees for row in self.rows)
        many = "1 T" if len(self.rows) == 1 else f"{len(self.rows)} T"
        how = "No difference is shown from" if self.agrees else "Differs from"
        words = f"{how} the paper's Figure 2 at {many}: our intervals agree at {inside}"
        if self.p_value is None:
            return f"{words}; too few trials at each m for the paper's own estimator."
        size = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.2g}"
        return (
            f"{words}; by the paper's estimator {self.within_two} of {self.compared} points lie "
            f"within two deviations, overall {size}."
        )


def beside_published(found: Sequence[Threshold]) -> PublishedAgreement | None:
    """Our thresholds beside the published ones; `None` without a common T."""
    known = {point.T: point for point in published().figure2}
    pairs = [(t, known[t.T]) for t in found if t.T in known and not _unknown(t)]
    if not pairs:
        return None
    rows = tuple(_row(t, point, len(pairs)) for t, point in pairs)
    differences = [row.deviations for row in rows if row.deviations is not None]
    total = sum(d**2 for d in differences)
    lean = sum(differences) / math.sqrt(max(1, len(differences)))
    both = chi2.sf(total, max(1, len(differences))), chi2.sf(lean**2, 1)
    return PublishedAgreement(
        rows=rows,
        within_two=sum(abs(d) <= 2 for d in differences),
        compared=len(differences),
        chi_square=total if differences else None,
        lean=lean if differences else None,
        p_value=min(1.0, 2 * float(min(both))) if differences else None,
    )


def _unknown(t: Threshold) -> bool:
    return t.low is None and t.high is None


def _row(t: Threshold, point: PublishedPoint, comparisons: int) -> BesidePublished:
    ours = resampled_threshold(t.rising, t.target)
    mine = Interval(
        *(None if v is None else float(v) for v in (t.m_star, t.low, t.high)), log_width=t.log_width
    )
    below = point.at_most and mine.m is not None and mine.m <= point.m_star
    return BesidePublished(
        T=t.T,
        published=point,
        resampled=ours,
        deviations=None if ours is None else _deviations(ours, point),
        mine=mine,
        agrees=below or agree(mine, _as_interval(point), comparisons=comparisons),
    )


def _deviations(ours: Resampled, point: PublishedPoint) -> float:
    """The difference in units of its deviation; 0 if the published point is only an upper end and
    ours does not exceed it."""
    difference = ours.m_star - point.m_star
    if point.at_most:
        difference = max(0.0, difference)
    spread = math.hypot(*(max(d, _ROUNDING) for d in (ours.deviation, point.deviation)))
    return difference / spread


def _as_interval(point: PublishedPoint) -> Interval:
    """Two deviations to either side; open below if the smallest m tried was enough."""
    spread = 1.96 * max(point.deviation, _ROUNDING)
    return Interval(point.m_star, None if point.at_most else point.m_star - spread,
                    point.m_star + spread)  # fmt: skip


@dataclass(frozen=True)
class Tested:
    """A comparison with the paper by an exact or a rank test, in numbers and in words."""

    ours: str
    published: str
    test: str
    p_value: float

    @property
    def verdict(self) -> str:
        how = "no difference" if self.p_value >= 0.05 else "a difference"
        return f"{self.ours} against {self.published}: {how} ({self.test}, p = {self.p_value:.2g})."


def beside_published_replicates(solved: int, total: int, m: int = 50) -> Tested:
    """Figure 3: solved replicates at T = 300 against the published ones, by Fisher's exact test.

    m: 50 (24 of 40 in the paper) or 200 (all 40).
    """
    require(0 <= solved <= total and total >= 1, "solved", f"0 to total = {total}", solved)
    known = published().figure3
    if str(m) not in known["solved"]:
        raise InputError(f"m: wanted one of {', '.join(known['solved'])}, got {m}")
    theirs, of = known["solved"][str(m)], known["replicates"]
    _, p_value = fisher_exact([[solved, total - solved], [theirs, of - theirs]])
    words = (f"{solved} of {total} replicates solved at m = {m}", f"{theirs} of {of} in the paper")
    return Tested(*words, "Fisher's exact test", float(p_value))


def beside_published_times(steps: Sequence[float | int | None], T: int) -> Tested:
    """Figure 4: iterations until the loss crosses 0.35 against the published ten, by rank test.

    steps: one for each seed, `None` for a seed that never reaches it: later than all others.
    """
    known: Mapping[str, list[int]] = published().figure4["steps"]
    if str(T) not in known:
        raise InputError(f"T: wanted one of {', '.join(known)}, got {T}")
    require(len(steps) >= 1, "steps", "at least one seed", len(steps))
    theirs = known[str(T)]
    ours = [math.inf if step is None else float(step) for step in steps]
    latest = 1 + max([*theirs, *(s for s in ours if s < math.inf)])
    ranked = [min(s, latest) for s in ours]
    p_value = mannwhitneyu(ranked, theirs, alternative="two-sided").pvalue
    middle, reached = np.median(ranked), sum(s < math.inf for s in ours)
    said = f"median {middle:.0f} steps, {reached} of {len(ours)} seeds" if reached else "no seed"
    own = f"T = {T}: {said}"
    return Tested(own, f"median {np.median(theirs):.0f}", "rank test", float(p_value))


def crossing_step(
    step: Float[ndarray, " n"], loss: Float[ndarray, " n"], level: float = 0.35
) -> float | None:
    """The first iteration at which a loss curve lies below `level`; `None` if it never does."""
    below = np.flatnonzero(np.asarray(loss) < level)
    return float(step[below[0]]) if len(below) else None


PUBLISHED_LAWS = {"log": lambda T: np.log(T), "linear": lambda T: T, "sqrt": lambda T: np.sqrt(T)}


def published_laws(*, with_smallest: bool = False) -> dict[str, float]:
    """Chi-square of a + b g(T) on the published points alone, by weighted least squares.

    g is log, linear or a square root. Bars count as deviations, of at least 4. The point at
    T = 100, where m* is at or below the smallest m tried, is left out unless `with_smallest`.
    log and linear fit equally well: the published range does not distinguish them.
    """
    points = [q for q in published().figure2 if with_smallest or not q.at_most]
    T, m = (np.array([getattr(q, name) for q in points], dtype=float) for name in ("T", "m_star"))
    weight = 1 / np.array([max(q.deviation, _LEAST_BAR) for q in points])
    found = {}
    for law, g in PUBLISHED_LAWS.items():
        columns = np.stack([np.ones_like(T), g(T)], axis=1) * weight[:, None]
        fitted, *_ = np.linalg.lstsq(columns, m * weight, rcond=None)
        found[law] = float(((columns @ fitted - m * weight) ** 2).sum())
    return found
