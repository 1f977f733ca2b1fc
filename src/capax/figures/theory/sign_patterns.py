"""Proposition 4.4 in one picture: all sign patterns, and the margin and the bound at each norm.

Top: the T sign patterns of log2 T inputs, one column for each head. Below, against the norm of the
key vectors: the margin of the worst output, and ln N of Corollary 4.5 at that norm and margin. All
patterns exist at every norm, so that ln N is at least ln T; a margin needs a larger norm.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from capax.figures.style import Palette, styled
from capax.statements.forms.head_shattering import (
    Shattering,
    corollary_at,
    corollary_by_norms,
    shatter,
    sign_patterns,
)

COLUMNS = 1024
"""About the width of a picture in pixels; with more heads a column is the mean of several."""
CURVE_POINTS = 24


def draw_sign_patterns(found: Shattering, smallest: float, *, dark: bool = False) -> Figure:
    """The picture for one T; `smallest`: the smallest norm with the wanted margin."""
    norms = np.geomspace(0.01 * found.T**2, max(found.norm, smallest), CURVE_POINTS)
    curve = [shatter(found.T, float(norm)) for norm in norms]
    proved = [s for s in curve if s.margin > 0]
    with styled(dark) as palette:
        figure = Figure(figsize=(7.6, 5.6), layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=(1, 1.6))
        _draw_patterns(figure.add_subplot(grid[0, :]), found, palette)
        _draw_margins(figure.add_subplot(grid[1, 0]), proved, found, smallest, palette)
        _draw_capacity(figure.add_subplot(grid[1, 1]), proved, found, palette)
    return figure


def _draw_patterns(axes: Axes, found: Shattering, palette: Palette) -> None:
    columns = min(found.T, COLUMNS)
    shares = sign_patterns(found.T).reshape(columns, -1, found.inputs).mean(axis=1)
    colours = LinearSegmentedColormap.from_list("signs", [palette.panel, palette.series[0]])
    ends = (-0.5, found.T - 0.5, found.inputs - 0.5, -0.5)
    axes.imshow(shares.T, aspect="auto", cmap=colours, interpolation="nearest", extent=ends)
    axes.grid(False)
    word = "proved" if found.verified else f"{found.patterns} proved"
    axes.set_title(f"{found.T} heads of width 3, {found.inputs} inputs, all sign patterns: {word}")
    axes.set_xlabel("head")
    axes.set_ylabel("input")
    axes.set_yticks(range(found.inputs))


def _draw_margins(
    axes: Axes, curve: list[Shattering], found: Shattering, smallest: float, palette: Palette
) -> None:
    axes.semilogx([s.norm for s in curve], [s.margin for s in curve], color=palette.series[0])
    for norm, name in ((smallest, "smallest norm"), (float(found.T) ** 2, "paper: T²")):
        axes.axvline(norm, color=palette.muted, linewidth=0.8)
        axes.text(norm, 0.02, f" {name}", rotation=90, fontsize=8, color=palette.muted, ha="right")
    axes.set_xlabel("norm of the key vector")
    axes.set_ylabel("smallest distance from 1/2")
    axes.set_ylim(0, 0.52)


def _draw_capacity(
    axes: Axes, curve: list[Shattering], found: Shattering, palette: Palette
) -> None:
    for count, name, colour in (
        (corollary_by_norms, "by norms", palette.series[1]),
        (corollary_at, "by parameters", palette.series[0]),
    ):
        values = [count(s.T, s.norm, 0.99 * s.margin) for s in curve]
        axes.loglog([s.norm for s in curve], values, color=colour)
        axes.text(curve[-1].norm, values[-1], name, fontsize=8, va="bottom", ha="right")
    axes.axhline(np.log(found.T), color=palette.series[2], linewidth=1)
    axes.text(
        curve[0].norm, np.log(found.T), "ln T, the patterns", fontsize=8, va="bottom",
        color=palette.series[2],
    )  # fmt: skip
    axes.set_xlabel("norm of the key vector")
    axes.set_ylabel("ln N by Corollary 4.5")
