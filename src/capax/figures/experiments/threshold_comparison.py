"""Several curves in one picture: m*(T) of every variant, learner or store, each by its name."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.errors import require
from capax.figures.experiments.threshold_scaling import ThresholdScaling
from capax.figures.labels import EndLabel, label_line_ends, tick_at
from capax.figures.style import Palette, styled

_WIDTH = 150
_MARKERS = "osD^vPX"


@dataclass(frozen=True)
class NamedCurve:
    """A curve and the name it goes by."""

    name: str
    data: ThresholdScaling


def draw_threshold_comparison(curves: Sequence[NamedCurve], *, dark: bool = False) -> Figure:
    """All curves over one axis of T, each with its law and intervals; the verdicts below."""
    require(curves, "curves", "at least one curve", curves)
    with styled(dark) as palette:
        lines = [
            line
            for curve in curves
            for line in textwrap.wrap(f"{curve.name}: {curve.data.verdict}", _WIDTH)
        ]
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
        axes.set_xscale("log")
        axes.set(title="Examples needed for 80% success, m*", xlabel="context length T (log scale)")
        axes.set_ylim(bottom=0)
        tick_at(axes, sorted({q.T for curve in curves for q in curve.data.points}))
        axes.grid(visible=False, axis="x")
        label_line_ends(axes, labels)
        top = (below - 0.1) / height
        figure.text(0.012, top, "\n".join(lines), va="top", linespacing=1.35, fontsize="small")
    return figure


def _draw_curve(axes: Axes, curve: NamedCurve, rank: int, of: int, palette: Palette) -> EndLabel:
    """Points with intervals, the law through them; the label of its end.

    Curves share their T: neighbours stand a little apart, so that no interval hides another.
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
        for side, sign in ((low, "^"), (high, "v")):  # one side open: an arrow from the one known
            if side is not None:
                axes.plot(point.T * aside, side, sign, color=color, markersize=6, fillstyle="none")
    known = [(q.T * aside, q.m_star) for q in data.points if q.m_star is not None]
    if known:
        axes.plot(*zip(*known, strict=True), marker, color=color, markersize=5.5, zorder=4)
    if data.laws:
        law = data.laws[0]
        axes.plot(law.T, law.m, color=color, linewidth=1.3)
        return EndLabel(float(law.m[-1]), curve.name, color, bold=True)
    if len(known) > 1:
        axes.plot(*zip(*known, strict=True), color=color, linewidth=0.9, linestyle=(0, (3, 3)))
    return EndLabel(float(known[-1][1]) if known else 0.0, curve.name, color, bold=True)
