"""Steps to solve against the length T: medians with intervals, fitted laws, and T^s beside them."""

import math
from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.analysis.times.solve_times import SolveTimes
from capax.analysis.times.time_laws import TimeLaw
from capax.errors import require
from capax.figures.labels import EndLabel, label_line_ends, tick_at
from capax.figures.style import Palette, styled

Key = tuple[str, int, int | None]
"""Panel, m and s of a line."""
_FAINT = 0.45


def draw_times(
    rows: Sequence[SolveTimes], laws: Sequence[TimeLaw], *, dark: bool = False
) -> Figure:
    """One line for each panel, m and s. A triangle: the interval of the median is open."""
    require(len(rows) > 0, "rows", "at least one setting", rows)
    groups: dict[Key, list[SolveTimes]] = defaultdict(list)
    for row in rows:
        groups[row.panel, row.m, row.s].append(row)
    with styled(dark) as palette:
        figure = Figure(figsize=(7.2, 4.3))
        axes = figure.subplots()
        axes.set(xscale="log", yscale="log", xlabel="length T", ylabel="steps to solve (median)")
        labels = []
        for number, (key, members) in enumerate(groups.items()):
            color = palette.series[number % len(palette.series)]
            law = next((w for w in laws if (w.panel, w.m, w.s) == key), None)
            labels.append(_draw_group(axes, members, law, color, _name(key, groups)))
        lengths = sorted({row.T for row in rows})
        tick_at(axes, lengths if len(lengths) <= 8 else lengths[:: math.ceil(len(lengths) / 8)])
        figure.subplots_adjust(left=0.11, right=0.70, bottom=0.2, top=0.96)
        label_line_ends(axes, labels)
        _explain(figure, palette, any(row.median.value is None for row in rows))
    return figure


def _name(key: Key, groups: Collection[Key]) -> str:
    """What tells a line from the others: s, and panel and m where they differ."""
    panel, m, s = key
    panels, sizes = ({k[i] for k in groups} for i in (0, 1))
    parts = [f"s = {s}"] if s is not None else []
    if len({k[2] for k in groups}) < len(panels):
        parts.append(panel)
    if len(sizes) > 1:
        parts.append(f"m = {m}")
    return ", ".join(parts) or panel


def _draw_group(
    axes: Axes, rows: Sequence[SolveTimes], law: TimeLaw | None, color: str, name: str
) -> EndLabel:
    rows = sorted(rows, key=lambda row: row.T)
    known = [row for row in rows if row.median.value is not None]
    for row in rows:
        top = row.limit if row.median.high is None else row.median.high
        axes.plot([row.T, row.T], [max(row.median.low, 1), top], color=color, lw=1.2, alpha=0.6)
        if row.median.high is None:
            axes.plot(row.T, top, marker="^", ms=5, color=color, ls="none")
    medians = [float(row.median.value or 0) for row in known]
    axes.plot([row.T for row in known], medians, "o", ms=4.5, color=color)
    last = medians[-1] if known else float(rows[-1].limit)
    if law is None:
        return EndLabel(last, name, color)
    T = np.geomspace(rows[0].T, rows[-1].T, 50)
    s = rows[0].s or 1
    axes.plot(T, [law.median(t, s) for t in T], color=color, lw=1.4)
    steps = [law.median(T[0], s) * (t / T[0]) ** s for t in T]
    axes.plot(T, steps, color=color, lw=0.9, ls=":", alpha=_FAINT)
    ends = "open" if law.low is None or law.high is None else f"{law.low:.1f} to {law.high:.1f}"
    return EndLabel(law.median(T[-1], s), f"{name}\nT^{law.exponent:.2f} ({ends})", color)


def _explain(figure: Figure, palette: Palette, open_medians: bool) -> None:
    words = "Bars: 95% intervals of the median. Lines: fitted laws. Dotted: T^s from the left end."
    if open_medians:
        words += "\nTriangles: the interval is open; too few runs were solved."
    figure.text(0.02, 0.03, words, color=palette.muted, fontsize="small")
