"""Several curves in one picture: m*(T) of every variant, learner or store, with its name."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from capax.errors import require
from capax.figures.experiments.reference_band import draw_published
from capax.figures.experiments.threshold_scaling import ThresholdPoint, ThresholdScaling
from capax.figures.labels import EndLabel, label_line_ends, tick_at
from capax.figures.style import Palette, styled

_WIDTH = 150
_MARKERS = "osDpPXh"
_DASHES = (0, (4, 2.5))


@dataclass(frozen=True)
class NamedCurve:
    """A curve and its name."""

    name: str
    data: ThresholdScaling


def draw_threshold_comparison(curves: Sequence[NamedCurve], *, dark: bool = False) -> Figure:
    """All curves over one axis of T, each with its law and intervals; the verdicts below.

    A settled law is a line with its 95% band, any other law is dashed. Laws end at the largest m
    that was tried. If a curve is comparable with the paper's Figure 2, the published points are
    drawn, once for all curves.
    """
    require(curves, "curves", "at least one curve", curves)
    with styled(dark) as palette:
        said = [f"{c.name}: {c.data.protocol} {c.data.verdict}" for c in curves]
        said += [*ratio_lines(curves), *trial_lines(curves)]
        lines = [line for text in said for line in textwrap.wrap(text, _WIDTH)]
        below = 0.25 + 0.165 * len(lines)
        height = 4.2 + below
        figure = Figure(figsize=(9.4, height))
        axes = figure.subplots()
        bottom = (below + 0.55) / height
        figure.subplots_adjust(left=0.07, right=0.78, bottom=bottom, top=1 - 0.35 / height)
        labels = [
            _draw_curve(axes, curve, rank, len(curves), palette)
            for rank, curve in enumerate(curves)
        ]
        contexts = [curve.data.context for curve in curves]
        if points := next((c.published for c in contexts if c and c.published), ()):
            draw_published(axes, points, palette)
        axes.set_xscale("log")
        axes.set(title="Examples needed for 80% success, m*", xlabel="context length T (log scale)")
        axes.set_ylim(bottom=0)
        tick_at(axes, sorted({q.T for curve in curves for q in curve.data.points}))
        axes.grid(visible=False, axis="x")
        _explain(axes, curves, palette)
        label_line_ends(axes, labels)
        top = (below - 0.1) / height
        figure.text(0.012, top, "\n".join(lines), va="top", linespacing=1.35, fontsize="small")
    return figure


def ratio_lines(curves: Sequence[NamedCurve]) -> list[str]:
    """The ratio of m* to that of the first curve, with a 95% interval, over the common T.

    The mean of the logarithms, each weighted by the inverse square of its error.
    """
    found, (first, *others) = [], curves
    base = {q.T: q for q in first.data.points if q.status == "closed" and q.m_star}
    for curve in others:
        logs, weights = [], []
        for q in curve.data.points:
            if q.T in base and q.status == "closed" and q.m_star:
                logs.append(math.log(q.m_star / (base[q.T].m_star or 1)))
                weights.append(1 / (_log_error(q) ** 2 + _log_error(base[q.T]) ** 2))
        if logs:
            mean = float(np.average(logs, weights=weights))
            reach = 1.96 / math.sqrt(sum(weights))
            low, middle, high = (math.exp(mean + side * reach) for side in (-1, 0, 1))
            many = "1 T" if len(logs) == 1 else f"{len(logs)} T"
            found.append(
                f"m* of {curve.name} is {middle:.2f} times that of {first.name} "
                f"[{low:.2f}, {high:.2f}], over {many}."
            )
    return found


def _log_error(point: ThresholdPoint) -> float:
    """Standard error of log m*; an interval of a single m counts as one example wide."""
    low, high = point.low or 1, point.high or 1
    return math.log(max(high, low + 1) / low) / (2 * 1.96)


def trial_lines(curves: Sequence[NamedCurve]) -> list[str]:
    """For curves whose law is not settled: the T with the widest interval of m*."""
    found = []
    for curve in curves:
        data = curve.data
        if data.status != "not settled":
            continue
        open_at = [q.T for q in data.points if q.status != "closed"]
        widest = max(data.points, key=_log_error).T
        where = ", ".join(map(str, open_at)) if open_at else str(widest)
        found.append(
            f"{curve.name} is not settled; m* is least certain at T = {where}: add trials there "
            "first."
        )
    return found


def _draw_curve(axes: Axes, curve: NamedCurve, rank: int, of: int, palette: Palette) -> EndLabel:
    """Points with intervals and the fitted law; returns the label of its end.

    Curves are shifted a little in T, so that no interval hides another.
    """
    color = palette.series[rank % len(palette.series)]
    marker = _MARKERS[(rank // len(palette.series)) % len(_MARKERS)]
    aside = float(np.exp(0.03 * (rank - (of - 1) / 2)))
    data = curve.data
    for point in data.points:
        low, high = point.low, point.high
        if low is not None and high is not None:
            axes.plot([point.T * aside] * 2, [low, high], color=color, linewidth=1.4, alpha=0.6)
            continue
        for side, sign in ((low, "^"), (high, "v")):  # one end unknown: an arrow from the known end
            if side is not None:
                axes.plot(point.T * aside, side, sign, color=color, markersize=6, fillstyle="none")
    known = [(q.T * aside, q.m_star) for q in data.points if q.m_star is not None]
    if known:
        axes.plot(*zip(*known, strict=True), marker, color=color, markersize=5.5, zorder=4)
    if data.laws:
        return EndLabel(_draw_law(axes, data, color), curve.name, color, bold=True)
    if len(known) > 1:
        axes.plot(*zip(*known, strict=True), color=color, linewidth=0.9, linestyle=(0, (3, 3)))
    return EndLabel(float(known[-1][1]) if known else 0.0, curve.name, color, bold=True)


def _draw_law(axes: Axes, data: ThresholdScaling, color: str) -> float:
    """The preferred law up to the largest m tried; returns its height at the end."""
    law = data.laws[0]
    largest = max(m for rates in data.rates for m in rates.m)
    tried = law.m <= largest
    if not tried.any():
        return float(largest)
    settled = data.status == "settled"
    style = "-" if settled else _DASHES
    axes.plot(law.T[tried], law.m[tried], color=color, linewidth=1.3, linestyle=style)
    if settled and law.low is not None and law.high is not None:
        low, high = (np.minimum(side[tried], largest) for side in (law.low, law.high))
        axes.fill_between(law.T[tried], low, high, color=color, alpha=0.1, linewidth=0)
    return float(law.m[tried][-1])


def _explain(axes: Axes, curves: Sequence[NamedCurve], palette: Palette) -> None:
    """A legend for the marks that do not stand for a number."""
    points = [q for curve in curves for q in curve.data.points]
    laws = [curve.data.status for curve in curves if curve.data.laws]
    entries: list[Line2D] = []
    look: dict[str, Any]
    for marker, words, there in (
        ("^", "interval from here on, open above", any(q.high is None and q.low for q in points)),
        ("v", "interval up to here, open below", any(q.low is None and q.high for q in points)),
    ):
        if there:
            look = {"marker": marker, "markersize": 6, "fillstyle": "none", "linestyle": ""}
            entries.append(Line2D([], [], color=palette.muted, label=words, **look))
    for words, style, there in (
        ("settled law, 95% band", "-", "settled" in laws),
        ("law not settled", _DASHES, any(status != "settled" for status in laws)),
    ):
        if there:
            look = {"linewidth": 1.3, "linestyle": style}
            entries.append(Line2D([], [], color=palette.muted, label=words, **look))
    if entries:
        axes.legend(handles=entries, loc="upper left", fontsize="x-small", frameon=False)
