"""Results of others in the background: a reference's band and the paper's published points.

They have their own colour, lie below all other lines, and are labelled as results of others.
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

COLOR = 5  # index in the palette's series; no other curve of Figure 2 uses it


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
    """The results in the background of a figure, and whether the user's points agree with them."""

    band: ReferenceBand | None
    published: tuple[PublishedPoint, ...]
    verdict: str


def context_of(agreement: ReferenceAgreement | None) -> Context | None:
    """The background for a comparison; `None` if there is nothing to compare with."""
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
    """Points with bars of one standard deviation, as in the paper."""
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
        zorder=6,  # above the lines of laws, to stay legible
        path_effects=[withStroke(linewidth=2.5, foreground=palette.background)],
    )
