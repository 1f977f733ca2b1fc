"""Figure 2: the sample size a learner needs, against the context length T.

Left, the measurements: the share of trials that succeed against m, one curve per T. Right, the
estimate: m*(T), the smallest m with success probability at least 0.8, with its 95% interval and
the fitted laws, and below them the examples that the best possible learner needs on the same task.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from numpy import ndarray

from capax.analysis.laws import Parameter
from capax.errors import counted, require
from capax.figures.experiments.reference_band import COLOR as REFERENCE_COLOR
from capax.figures.experiments.reference_band import Context, draw_context
from capax.figures.labels import EndLabel, label_line_ends, tick_at
from capax.figures.style import Palette, styled

TARGET = 0.8
# An adaptive search spends few trials on each m, and a line through their shares would zigzag. They
# are shown as dots whose area is the number of trials.
ENOUGH_FOR_A_LINE = 5
LEGEND_DOT = 24.0
WIDE = 20  # from this ratio of largest to smallest m on, the axis of m is logarithmic
LINE = 0.175  # inches from one line of the verdict to the next


@dataclass(frozen=True)
class ThresholdPoint:
    """m*(T) with its interval; unknown values are `None`, and `status` gives the reason.

    `ratio`: m* over the examples that the best learner needs, if both are known. `reference`: the
    trials belong to a reference.
    """

    T: int
    m_star: int | None
    low: int | None
    high: int | None
    trials: int
    status: str = "closed"
    ratio: float | None = None
    reference: bool = False


@dataclass(frozen=True)
class SuccessRates:
    """`solved[i]` of the `total[i]` trials with `m[i]` examples succeeded."""

    T: int
    m: tuple[int, ...]
    solved: tuple[int, ...]
    total: tuple[int, ...]


@dataclass(frozen=True)
class FittedLaw:
    """A law m* = g(T) on a grid of T, its weight among its rivals, its 95% band if known, and
    whether the trials rule it out."""

    name: str
    formula: str
    weight: float
    parameters: tuple[Parameter, ...]
    T: Float[ndarray, " n"]
    m: Float[ndarray, " n"]
    low: Float[ndarray, " n"] | None = None
    high: Float[ndarray, " n"] | None = None
    p_fit: float | None = None
    ruled_out: bool = False


@dataclass(frozen=True)
class ReferenceCurve:
    """The examples that a learner without computational limits needs; the name has the protocol."""

    name: str
    T: Float[ndarray, " n"]
    m: Float[ndarray, " n"]


@dataclass(frozen=True)
class ThresholdScaling:
    """The data of Figure 2; laws in order of preference; `p` only if the inputs are random bits.

    `protocol`: how the trials were trained, in a sentence.
    """

    task: str
    p: float | None
    points: tuple[ThresholdPoint, ...]
    rates: tuple[SuccessRates, ...]
    laws: tuple[FittedLaw, ...]
    references: tuple[ReferenceCurve, ...]
    verdict: str
    status: str = "settled"
    left: str | None = None
    context: Context | None = None
    protocol: str = ""

    def __post_init__(self) -> None:
        require(self.points, "points", "at least one threshold", self.points)


def draw_threshold_scaling(data: ThresholdScaling, *, dark: bool = False) -> Figure:
    """Figure 2 as a Matplotlib figure."""
    with styled(dark) as palette:
        words = textwrap.wrap(data.verdict, 125) + textwrap.wrap(data.protocol, 125)
        below = 1.0 + LINE * max(0, len(words) - 2)  # inches for the words under the axes
        height = 3.5 + below
        figure = Figure(figsize=(9.4, height))
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.35))
        edges = {"bottom": (below + 0.22) / height, "top": 1 - 0.36 / height}
        figure.subplots_adjust(left=0.06, right=0.83, wspace=0.2, **edges)
        _draw_rates(left, data, palette)
        _draw_thresholds(right, data, palette)
        _write_verdict(figure, data, words, (below - 0.32) / height, palette)
        for axes in (left, right):
            axes.grid(visible=False, axis="x")
    return figure


def _draw_rates(axes: Axes, data: ThresholdScaling, palette: Palette) -> None:
    axes.axhline(TARGET, color=palette.muted, linewidth=0.8, linestyle=(0, (2, 3)))
    for rates, strength in zip(data.rates, strengths(len(data.rates)), strict=True):
        total = np.array(rates.total)
        share = np.array(rates.solved) / total
        look = {"color": palette.series[0], "alpha": strength}
        if deserves_line(rates):
            axes.plot(rates.m, share, linewidth=1.1, **look)
        area = 4 + 0.4 * total if deserves_line(rates) else 6 * total
        axes.scatter(rates.m, share, s=area, linewidths=0, label=f"{rates.T}", **look)
    one = f", T = {data.rates[0].T}" if len(data.rates) == 1 else ""
    axes.set(title=f"Trials that succeed{one}", xlabel="training examples m", ylim=(-0.03, 1.05))
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    _stretch(axes, [m for rates in data.rates for m in rates.m])
    if not one:  # a legend with one dot would look like a trial
        _explain_lengths(axes)


def _stretch(axes: Axes, tried: Sequence[int]) -> None:
    """A logarithmic axis if the m tried cover a wide range: most trials have a small m."""
    if is_wide(tried):
        axes.set_xscale("log")
        steps = [k * 10**e for e in range(10) for k in (1, 2, 5)]
        tick_at(axes, [m for m in steps if min(tried) <= m <= max(tried)])
        axes.set_xlabel("training examples m (log scale)")


def is_wide(tried: Sequence[int]) -> bool:
    """Whether an axis of the m tried should be logarithmic."""
    return bool(tried) and max(tried) > WIDE * min(tried)


def deserves_line(rates: SuccessRates) -> bool:
    """Whether the shares of one T have enough trials to be joined by a line."""
    return bool(np.median(rates.total) >= ENOUGH_FOR_A_LINE)


def strengths(number: int) -> list[float]:
    """Opacity of the curves, paler for smaller T; a single curve is opaque."""
    return np.linspace(1, 0.3, number)[::-1].tolist()


def _explain_lengths(axes: Axes) -> None:
    legend = axes.legend(
        title="T",
        loc="lower right",
        fontsize="x-small",
        title_fontsize="small",
        handletextpad=0.2,
        borderaxespad=0.2,
        labelspacing=0.25,
    )
    for handle in legend.legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes([LEGEND_DOT])  # in the panel an area is a number of trials


def _draw_thresholds(axes: Axes, data: ThresholdScaling, palette: Palette) -> None:
    axes.set_xscale("log")
    laws = _draw_laws(axes, data, palette)
    references = _draw_references(axes, data, palette)
    if data.context is not None:
        references += draw_context(axes, data.context, palette)
    _draw_points(axes, data, palette)
    axes.set(title="Examples needed for 80% success, m*", xlabel="context length T (log scale)")
    axes.set_ylim(bottom=0)
    tick_at(axes, [point.T for point in data.points])
    label_line_ends(axes, [*laws, *references])


def _draw_points(axes: Axes, data: ThresholdScaling, palette: Palette) -> None:
    """Points with intervals; an unknown end of an interval is an arrow head.

    A T without an m* has only its bar and arrow, and a text if no m tried was sufficient.
    """
    own, others = palette.series[0], palette.series[REFERENCE_COLOR]
    top = axes.get_ylim()[1]
    for point in data.points:
        color = others if point.reference else own
        low, high = point.low or 0, point.high or max(top, 1.1 * (point.low or 0))
        axes.plot([point.T, point.T], [low, high], color=color, linewidth=1.6, alpha=0.6)
        for open_side, y, marker in ((point.low, low, "v"), (point.high, high, "^")):
            if open_side is None:
                axes.plot(point.T, y, marker, color=color, markersize=4, alpha=0.6)
        if point.status.startswith("does not reach"):
            axes.annotate(
                f"under 80%\nup to m = {low - 1}",
                (point.T, low),
                xytext=(0, -3),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize="x-small",
                color=color,
            )
    for color, reference in ((own, False), (others, True)):
        shown = [q for q in data.points if q.reference == reference]
        known = {q.T: q.m_star for q in shown if q.m_star is not None}
        axes.plot(
            list(known),
            list(known.values()),
            "s" if reference else "o",
            color=color,
            markersize=4.5 if reference else 5.5,
            markeredgecolor=palette.background,
            zorder=4,
        )


def _draw_laws(axes: Axes, data: ThresholdScaling, palette: Palette) -> list[EndLabel]:
    """The preferred law in colour with its band, its rivals dashed."""
    labels = []
    for rank, law in enumerate(data.laws):
        color = palette.series[0] if rank == 0 else palette.muted
        style = "-" if rank == 0 else (0, (4, 2 + rank))
        axes.plot(law.T, law.m, color=color, linewidth=1.5 if rank == 0 else 0.9, linestyle=style)
        if rank == 0 and law.low is not None and law.high is not None:
            axes.fill_between(law.T, law.low, law.high, color=color, alpha=0.12, linewidth=0)
        text = f"{law.name}, ruled out" if law.ruled_out else f"{law.name}, weight {law.weight:.2f}"
        labels.append(EndLabel(float(law.m[-1]), text, color, bold=rank == 0))
    return labels


def _draw_references(axes: Axes, data: ThresholdScaling, palette: Palette) -> list[EndLabel]:
    labels = []
    for reference, color in zip(data.references, palette.series[1:], strict=False):
        alone = "_" if len(reference.T) == 1 else ""  # a line of one point would be invisible
        axes.plot(reference.T, reference.m, color=color, linewidth=1.3, marker=alone, markersize=22)
        labels.append(EndLabel(float(reference.m[-1]), textwrap.fill(reference.name, 24), color))
    return labels


def _write_verdict(
    figure: Figure, data: ThresholdScaling, words: list[str], top: float, palette: Palette
) -> None:
    trials = sum(point.trials for point in data.points if not point.reference)
    how = "Dots: area by trials. Bars and band: 95% intervals."
    if data.context is not None:
        how += " Squares, diamonds and dotted lines: not from these trials."
    setting = f"{describe_setting(data)}; {counted(trials, 'trial')}. {how}"
    figure.text(0.012, top, "\n".join(words), va="top", linespacing=1.35)
    figure.text(0.012, 0.012, setting, fontsize="small", color=palette.muted)


def describe_setting(data: ThresholdScaling) -> str:
    """The task and, for random bits, their p."""
    return data.task if data.p is None else f"{data.task}; every bit is 1 with p = {data.p:.4g}"
