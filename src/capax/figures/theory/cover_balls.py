"""Points, balls and centres: what an eps-cover looks like in the plane.

`draw_warm_up` redraws Figures 1 and 2 of the lecture notes on covering numbers with their numbers
corrected: the set is {(0.5, 0.7), (0.2, 0.3), (0.6, 0.65)}; at eps = 0.05 three centres are needed,
at 0.45 two, and at 0.5 one suffices, because 0.3^2 + 0.4^2 = 0.5^2 and balls are closed.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Patch, Polygon, Rectangle

from capax.capacity.covers.covering_sets import Cover, covering_number
from capax.capacity.covers.metrics import FiniteSpace, space_from_points
from capax.errors import require
from capax.figures.style import Palette, styled

WARM_UP_POINTS = ((0.5, 0.7), (0.2, 0.3), (0.6, 0.65))
WARM_UP_RADII = (0.05, 0.45, 0.5)
MOST_JOINED = 200  # with more points the joining lines would hide the balls


def draw_cover(space: FiniteSpace, cover: Cover, *, dark: bool = False) -> Figure:
    """One cover: the balls around its centres, every other point joined to its nearest centre."""
    check_drawable(space)
    with styled(dark) as palette:
        figure = Figure(figsize=(5.6, 5.6), layout="constrained")
        axes = figure.subplots()
        draw_balls(axes, space, cover, palette)
        axes.set_title(_title(cover, len(space)), loc="left")
        _legend(axes, len(space) <= MOST_JOINED, palette)
    return figure


def draw_warm_up(*, dark: bool = False) -> Figure:
    """The warm-up example at three radii, with the corrected covering numbers 3, 2 and 1."""
    space = space_from_points(WARM_UP_POINTS)
    with styled(dark) as palette:
        figure = Figure(figsize=(10.2, 4.0), layout="constrained")
        panels = figure.subplots(1, 3, sharex=True, sharey=True)
        for axes, eps in zip(panels, WARM_UP_RADII, strict=True):
            cover = covering_number(space, eps)
            draw_balls(axes, space, cover, palette)
            axes.set_title(f"ε = {eps:g}:  N = {cover.exact}", loc="left")
            _name_points(axes, palette)
        for axes in panels:
            axes.set(xlim=(-0.32, 1.12), ylim=(-0.22, 1.24), xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        _mark_tie(panels[2], palette)
    return figure


def draw_balls(axes: Axes, space: FiniteSpace, cover: Cover, palette: Palette) -> None:
    """The panel itself: filled balls, large centres, small other points, thin lines between."""
    points = _in_the_plane(space)
    color = palette.series[0]
    centres = points[list(cover.centres)]
    for centre in centres:
        ball = _ball(space.metric, centre, cover.eps)
        ball.set(facecolor=color, alpha=0.13, edgecolor="none")
        rim = _ball(space.metric, centre, cover.eps)
        rim.set(facecolor="none", edgecolor=color, alpha=0.75, linewidth=1.1)
        axes.add_patch(ball)
        axes.add_patch(rim)
    others = np.setdiff1d(np.arange(len(space)), cover.centres)
    if len(space) <= MOST_JOINED:
        _join_to_centres(axes, space, cover, others, palette)
    size = 34 if len(space) <= MOST_JOINED else 16
    dot = 0.6 * size if len(space) <= MOST_JOINED else 4
    axes.scatter(*points[others].T, s=dot, color=palette.ink, linewidths=0, zorder=3)
    axes.scatter(
        *centres.T, s=size * 1.5, color=color, edgecolors=palette.background, lw=1, zorder=4
    )
    _set_limits(axes, points, centres, cover.eps)


def _join_to_centres(
    axes: Axes, space: FiniteSpace, cover: Cover, others: np.ndarray, palette: Palette
) -> None:
    """A thin line from every other point to its nearest centre."""
    points = _in_the_plane(space)
    nearest = space.distances[others][:, list(cover.centres)].argmin(axis=1)
    ends = points[np.array(cover.centres)[nearest]]
    lines = LineCollection(
        list(np.stack([points[others], ends], axis=1)), colors=palette.muted, linewidths=0.7
    )
    axes.add_collection(lines)


def check_drawable(space: FiniteSpace) -> None:
    """Raise `InputError` unless the space has points in one or two dimensions."""
    drawable = space.points is not None and space.points.shape[1] <= 2
    got = "only distances" if space.points is None else f"{space.points.shape[1]} coordinates"
    require(drawable, "plot", "points on a line or in the plane (or --curve)", got)
    metrics = ("euclidean", "manhattan", "chebyshev")
    require(space.metric in metrics, "plot", "a metric among " + ", ".join(metrics), space.metric)


def _in_the_plane(space: FiniteSpace) -> np.ndarray:
    assert space.points is not None, "checked by check_drawable"
    return np.pad(space.points, ((0, 0), (0, 2 - space.points.shape[1])))


def _ball(metric: str, centre: np.ndarray, eps: float) -> Patch:
    """The closed ball as a shape: disc, diamond or square."""
    x, y = float(centre[0]), float(centre[1])
    if metric == "manhattan":
        return Polygon([(x - eps, y), (x, y + eps), (x + eps, y), (x, y - eps)], closed=True)
    if metric == "chebyshev":
        return Rectangle((x - eps, y - eps), 2 * eps, 2 * eps)
    return Circle((x, y), eps)


def _set_limits(axes: Axes, points: np.ndarray, centres: np.ndarray, eps: float) -> None:
    """Limits that show every point and every whole ball: a clipped ball would look smaller."""
    low = np.minimum(points.min(axis=0), centres.min(axis=0) - eps)
    high = np.maximum(points.max(axis=0), centres.max(axis=0) + eps)
    margin = 0.04 * (float((high - low).max()) or 1.0)
    axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin))
    axes.set_aspect("equal")
    axes.grid(False)


def _title(cover: Cover, n: int) -> str:
    size = f"= {cover.exact}" if cover.exact else f"between {cover.lower} and {cover.upper}"
    return f"N(S, ε = {cover.eps:g}) {size},  {n} points"


def _legend(axes: Axes, joined: bool, palette: Palette) -> None:
    name = "covered by the centre it is joined to" if joined else "covered point"
    axes.scatter([], [], s=50, color=palette.series[0], label="centre, with its ball")
    axes.scatter([], [], s=20, color=palette.ink, label=name)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.06), ncols=2, frameon=False, borderpad=0)


def _name_points(axes: Axes, palette: Palette) -> None:
    places = (((-8, 8), "right"), ((-8, -12), "right"), ((9, -4), "left"))
    for point, (offset, side) in zip(WARM_UP_POINTS, places, strict=True):
        axes.annotate(
            f"({point[0]:g}, {point[1]:g})",
            point,
            offset,
            textcoords="offset points",
            ha=side,
            fontsize=8,
            color=palette.muted,
        )


def _mark_tie(axes: Axes, palette: Palette) -> None:
    """A note why one centre suffices: the farthest point lies exactly on the boundary."""
    text = "√(0.3² + 0.4²) = 0.5: exactly on the boundary"
    axes.annotate(text, (0.42, 0.06), ha="center", fontsize=8, color=palette.ink)
