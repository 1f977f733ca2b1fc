"""Steps to solve against T, m or another axis: medians with intervals, fitted laws, T^s."""

import math
from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.analysis.times.solve_times import SolveTimes
from capax.analysis.times.time_laws import LineKey, TimeLaw, frontier, line_of
from capax.errors import require
from capax.figures.labels import EndLabel, label_line_ends, tick_at
from capax.figures.style import Palette, styled

_FAINT = 0.45
_WORDS = {"T": "length T", "m": "examples m"}


def draw_times(
    rows: Sequence[SolveTimes], laws: Sequence[TimeLaw], *, over: str = "T", dark: bool = False
) -> Figure:
    """One line for each setting. A triangle: the interval of the median is open.

    Over m, rings mark the frontier: settings for which no smaller sample is as fast.
    """
    rows = [row for row in rows if row.at(over) is not None]
    require(len(rows) > 0, "rows", f"at least one setting with a value of {over}", 0)
    groups: dict[LineKey, list[SolveTimes]] = defaultdict(list)
    for row in rows:
        groups[line_of(row, over)].append(row)
    with styled(dark) as palette:
        figure = Figure(figsize=(7.2, 4.3))
        axes = figure.subplots()
        axes.set(xscale="log", yscale="log", xlabel=_WORDS.get(over, over))
        axes.set_ylabel("steps to solve (median)")
        labels = []
        for number, (key, members) in enumerate(groups.items()):
            color = palette.series[number % len(palette.series)]
            law = next((w for w in laws if (w.panel, w.T, w.m, w.s) == key), None)
            labels.append(_draw_group(axes, members, over, law, color, _name(key, groups)))
        best = [(row.m, row.median.value or 0) for row in frontier(rows)] if over == "m" else []
        for point in best:
            axes.plot(*point, "o", ms=9, mfc="none", mec=palette.muted)
        values = sorted({row.at(over) or 0.0 for row in rows})
        tick_at(axes, values if len(values) <= 8 else values[:: math.ceil(len(values) / 8)])
        figure.subplots_adjust(left=0.11, right=0.70, bottom=0.2, top=0.96)
        label_line_ends(axes, labels)
        dotted = any(law.of_queries is not None for law in laws)
        _explain(figure, palette, any(row.median.value is None for row in rows), dotted, over)
    return figure


def _name(key: LineKey, groups: Collection[LineKey]) -> str:
    """The label of a line: s, and those of panel, T and m that differ between lines."""
    panel, T, m, s = key
    panels, lengths, sizes, bits = ({k[i] for k in groups} for i in range(4))
    parts = [f"s = {s}"] if s is not None else []
    if len(bits) < len(panels):
        parts.append(panel)
    if len(lengths) > 1:
        parts.append(f"T = {T}")
    if len(sizes) > 1:
        parts.append(f"m = {m}")
    return ", ".join(parts) or panel


def _draw_group(
    axes: Axes,
    rows: Sequence[SolveTimes],
    over: str,
    law: TimeLaw | None,
    color: str,
    name: str,
) -> EndLabel:
    points = sorted(((row.at(over) or 0.0, row) for row in rows), key=lambda point: point[0])
    for x, row in points:
        top = row.limit if row.median.high is None else row.median.high
        axes.plot([x, x], [max(row.median.low, 1), top], color=color, lw=1.2, alpha=0.6)
        if row.median.high is None:
            axes.plot(x, top, marker="^", ms=5, color=color, ls="none")
    known = [(x, row.median.value) for x, row in points if row.median.value is not None]
    axes.plot([x for x, _ in known], [steps for _, steps in known], "o", ms=4.5, color=color)
    last = float(known[-1][1]) if known else float(points[-1][1].limit)
    if law is None:
        return EndLabel(last, name, color)
    x = np.geomspace(points[0][0], points[-1][0], 50)
    axes.plot(x, [law.median(value) for value in x], color=color, lw=1.4)
    if law.of_queries is not None:
        steps = [law.median(x[0]) * (value / x[0]) ** law.of_queries for value in x]
        axes.plot(x, steps, color=color, lw=0.9, ls=":", alpha=_FAINT)
    ends = "open" if law.low is None or law.high is None else f"{law.low:.1f} to {law.high:.1f}"
    return EndLabel(law.median(x[-1]), f"{name}\n{over}^{law.exponent:.2f} ({ends})", color)


def _explain(figure: Figure, palette: Palette, open_ends: bool, dotted: bool, over: str) -> None:
    words = "Bars: 95% intervals of the median. Lines: fitted laws."
    if dotted:
        words += " Dotted: T^s from the left end."
    if over == "m":
        words += " Rings: no smaller sample is as fast."
    if open_ends:
        words += "\nTriangles: the interval is open; too few runs were solved."
    figure.text(0.02, 0.03, words, color=palette.muted, fontsize="small")
