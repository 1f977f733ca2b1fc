"""Where the slack is: from a packing, the lower bound, to the bound that the paper starts from.

For the linear class {x -> w.x : ||w|| <= a} on N points of norm b: a packing (a lower bound for
every cover), our covers, their simple C/eps^2 form, and Zhang's theorem. The number at each dot is
the ratio to the dot above it.
"""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.capacity.linear.linear_classes import (
    log_cover_lower,
    log_cover_vector,
    quadratic_constant_vector,
    zhang_bound,
)
from capax.errors import require
from capax.figures.style import Palette, styled


@dataclass(frozen=True)
class CoverStage:
    """One number of the waterfall: its name and ln N."""

    name: str
    log_cover: float


def linear_stages(
    a: float | int, b: float | int, eps: float | int, N: int
) -> tuple[CoverStage, ...]:
    """The chain of inequalities for the linear class at one radius, smallest first."""
    return (
        CoverStage("packing of orthogonal points\n(lower bound)", log_cover_lower(a, b, eps, N)),
        CoverStage("Perceptron cover, external", log_cover_vector(a, b, eps, N)),
        CoverStage("Perceptron cover, internal", log_cover_vector(a, b, eps, N, internal=True)),
        CoverStage("C / ε², for every ε", quadratic_constant_vector(a, b, N) / eps**2),
        CoverStage("Zhang's theorem (constant 36)", zhang_bound(a, b, eps, N)),
    )


def draw_slack(
    a: float | int, b: float | int, eps: float | int, N: int, *, dark: bool = False
) -> Figure:
    """The waterfall as dots on a logarithmic axis; the lower bound has its own colour."""
    stages = linear_stages(a, b, eps, N)
    require(stages[0].log_cover > 0, "eps", f"a radius below ab/2 = {a * b / 2:g}", eps)
    with styled(dark, formulas=True) as palette:
        figure = Figure(figsize=(7.4, 3.2), layout="constrained")
        axes = figure.subplots()
        _draw_dots(axes, stages, palette)
        axes.set_title(
            f"ln N of a linear class: ab/ε = {a * b / eps:g}, N = {N:,} points", loc="left"
        )
    return figure


def _draw_dots(axes: Axes, stages: tuple[CoverStage, ...], palette: Palette) -> None:
    left = stages[0].log_cover / 2
    for row, stage in enumerate(stages):
        color = palette.series[1] if row == 0 else palette.series[0]
        axes.hlines(row, left, stage.log_cover, color=palette.muted, linewidth=0.8, zorder=1)
        axes.plot(stage.log_cover, row, "o", color=color, markersize=9)
        axes.annotate(
            _caption(stages, row),
            (stage.log_cover, row),
            (10, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=palette.ink,
        )
    axes.set_xscale("log")
    axes.set(xlim=(left, stages[-1].log_cover * 12), ylim=(-0.6, len(stages) - 0.4))
    axes.set_yticks(range(len(stages)))
    axes.set_yticklabels([stage.name for stage in stages])
    axes.set_xlabel("nats")
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)


def _caption(stages: tuple[CoverStage, ...], row: int) -> str:
    value = f"{stages[row].log_cover:,.0f}"
    if row == 0:
        return value
    factor = stages[row].log_cover / stages[row - 1].log_cover
    return f"{value}   ×{factor:.3g}"
