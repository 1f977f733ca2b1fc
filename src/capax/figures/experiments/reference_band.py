"""Somebody else's results behind one's own: a reference's band and the paper's published points.

They are drawn in a colour of their own, behind everything, and named as what they are.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy import ndarray

from capax.analysis.reference.agreement import ReferenceAgreement
from capax.analysis.reference.published import PublishedPoint, published
from capax.figures.labels import EndLabel
from capax.figures.style import Palette

COLOR = 5  # among the palette's series: no other curve of Figure 2 has it


@dataclass(frozen=True)
class ReferenceBand:
    """A reference's law with its 95% band, and its thresholds; any part may be missing."""

    name: str
    T: Float[ndarray, " n"]
    m: Float[ndarray, " n"]
    low: Float[ndarray, " n"]
    high: Float[ndarray, " n"]
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Context:
    """What stands behind the points of a figure, and whether they agree with it."""

    band: ReferenceBand | None
    published: tuple[PublishedPoint, ...]
    verdict: str


def context_of(agreement: ReferenceAgreement | None) -> Context | None:
    """What to draw of a comparison; `None` where nothing compares."""
    if agreement is None:
        return None
    points = published().figure2 if agreement.published else ()
    return Context(_band(agreement), points, agreement.verdict)


def _band(agreement: ReferenceAgreement) -> ReferenceBand | None:
    said, reference = agreement.answer, agreement.reference
    if said is None or reference is None:
        return None
    points = tuple((t.T, t.m_star) for t in said.thresholds if t.m_star is not None)
    name = f"reference {reference.name}"
    grid = np.geomspace(said.thresholds[0].T, said.thresholds[-1].T, 80)
    band = said.scaling.best.band(grid) if said.scaling else None
    if said.scaling is None or band is None:
        nothing = np.zeros(0)
        return ReferenceBand(name, nothing, nothing, nothing, nothing, points)
    return ReferenceBand(name, grid, said.scaling.best.predict(grid), band[0], band[1], points)


def draw_context(axes: Axes, context: Context, palette: Palette) -> list[EndLabel]:
    """The band, its points and the published points; the labels for the ends of lines."""
    color, labels = palette.series[COLOR], []
    band = context.band
    if band is not None:
        axes.fill_between(band.T, band.low, band.high, color=color, alpha=0.13, linewidth=0)
        axes.plot(*zip(*band.points, strict=True), "s", color=color, markersize=3, alpha=0.7)
        if band.m.size:
            axes.plot(band.T, band.m, color=color, linewidth=0.9, linestyle=(0, (1, 1.5)))
            labels.append(EndLabel(float(band.m[-1]), band.name, color))
    if context.published:
        draw_published(axes, context.published, palette)
    return labels


def draw_published(axes: Axes, points: tuple[PublishedPoint, ...], palette: Palette) -> None:
    """Points and bars of one deviation, as the paper draws them."""
    T, m = [q.T for q in points], [q.m_star for q in points]
    axes.errorbar(
        T,
        m,
        yerr=[q.deviation for q in points],
        fmt="D",
        color=palette.ink,
        markersize=2.6,
        elinewidth=0.7,
        capsize=1.8,
        alpha=0.75,
        zorder=3,
    )
    highest = max(points, key=lambda q: q.high)
    axes.annotate(
        "paper",
        (highest.T, highest.high),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize="x-small",
        color=palette.ink,
        zorder=6,  # legible also on the lines of laws
        path_effects=[withStroke(linewidth=2.5, foreground=palette.background)],
    )
