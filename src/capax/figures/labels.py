"""Labels at the ends of lines, so that figures need no legend."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy import ndarray
from scipy.optimize import isotonic_regression


@dataclass(frozen=True)
class EndLabel:
    """`text` beside the right end of a line that ends at height `y`."""

    y: float
    text: str
    color: str
    bold: bool = False


def label_line_ends(axes: Axes, labels: Sequence[EndLabel], *, spacing: float = 11.0) -> None:
    """Write the labels right of the axes, each line in `spacing` points, in the order of y."""
    ordered = sorted(labels, key=lambda label: label.y)
    if not ordered:
        return
    left = axes.get_xlim()[0]
    pixels = axes.transData.transform([(left, label.y) for label in ordered])
    wanted = axes.transAxes.inverted().transform(pixels)[:, 1]
    height = axes.bbox.height * 72 / axes.figure.dpi
    lines = np.array([1 + label.text.count("\n") for label in ordered])
    gaps = spacing * (lines[1:] + lines[:-1]) / 2
    for label, y in zip(ordered, spread(wanted * height, gaps) / height, strict=True):
        axes.annotate(
            label.text,
            (1, y),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=label.color,
            fontsize="small",
            fontweight="bold" if label.bold else "normal",
            annotation_clip=False,
        )


def spread(
    positions: Float[ndarray, " n"], gaps: float | Float[ndarray, " n-1"]
) -> Float[ndarray, " n"]:
    """The closest positions (least squares, same order) that are `gaps` apart or more.

    With u_i = y_i - (gap_1 + ... + gap_i) the constraint says that u is non-decreasing: isotonic
    regression.
    """
    if positions.size == 0:
        return positions
    ladder = np.concatenate([[0.0], np.cumsum(np.broadcast_to(gaps, positions.size - 1))])
    return isotonic_regression(positions - ladder).x + ladder


def tick_at(axes: Axes, values: Sequence[int | float], *, gap: float = 0.055) -> None:
    """Ticks of the x axis at the measured values; ticks that would overlap are left out."""
    low, high = axes.get_xlim()
    warp = np.log if axes.get_xscale() == "log" else np.asarray
    place = (warp(np.array(values, dtype=float)) - warp(low)) / (warp(high) - warp(low))
    kept: list[int] = []
    for i in reversed(range(len(values))):
        if not kept or place[kept[-1]] - place[i] >= gap:
            kept.append(i)
    axes.xaxis.set_major_locator(FixedLocator([values[i] for i in reversed(kept)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: grouped(float(value))))


def grouped(value: float | int) -> str:
    """12345 as `12 345`, with thin spaces from five digits on; 0.0003 unchanged."""
    if 0 < value < 1:
        return f"{value:g}"
    text = f"{value:.0f}"
    return f"{value:,.0f}".replace(",", "\u2009") if len(text) > 4 else text
