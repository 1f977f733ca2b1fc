"""Figure 4: sparse parities are learnt suddenly, and the attention changes before the loss.

One column per T and s; rows: loss, validation accuracy, and the share of the attention on the
secret bits (averaged over heads and examples), which may move while the loss is still at chance.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from capax.errors import require
from capax.figures.labels import grouped
from capax.figures.style import Palette, styled


@dataclass(frozen=True)
class ParityRun:
    """One seed: curves at the evaluated steps; `attention_mass` only if it was measured."""

    run_id: str
    step: Float[ndarray, " n"]
    loss: Float[ndarray, " n"]
    validation_accuracy: Float[ndarray, " n"]
    attention_mass: Float[ndarray, " n"] | None
    solved_step: int | None


@dataclass(frozen=True)
class ParityPanel:
    """All seeds at one T, for a parity of s bits."""

    T: int
    s: int
    runs: tuple[ParityRun, ...]

    def __post_init__(self) -> None:
        require(self.runs, "runs", f"at least one run at T = {self.T}", self.runs)

    @property
    def solved_steps(self) -> tuple[int, ...]:
        return tuple(sorted(r.solved_step for r in self.runs if r.solved_step is not None))

    def summary(self) -> str:
        """`9 of 10 seeds solved, at steps 1500 to 4500`."""
        steps = self.solved_steps
        counted = f"{len(steps)} of {len(self.runs)} seeds solved"
        if not steps:
            return counted
        if steps[0] == steps[-1]:
            return f"{counted}, at step {grouped(steps[0])}"
        return f"{counted}, at steps {grouped(steps[0])} to {grouped(steps[-1])}"


@dataclass(frozen=True)
class ParityTransition:
    """Everything Figure 4 shows, the panels in the order of s, then T."""

    panels: tuple[ParityPanel, ...]

    def __post_init__(self) -> None:
        require(self.panels, "panels", "at least one T", self.panels)

    @property
    def has_attention(self) -> bool:
        return any(r.attention_mass is not None for panel in self.panels for r in panel.runs)


_ROWS = ("loss (nats)", "validation\naccuracy", "attention on\nthe secret bits")


def draw_parity_transition(data: ParityTransition, *, dark: bool = False) -> Figure:
    """Figure 4 as a Matplotlib figure."""
    rows, several = 3 if data.has_attention else 2, len({p.s for p in data.panels}) > 1
    with styled(dark) as palette:
        figure = Figure(figsize=(1.2 + 3.9 * len(data.panels), 1.0 + 1.65 * rows))
        grid = figure.subplots(rows, len(data.panels), sharex="col", sharey="row", squeeze=False)
        figure.subplots_adjust(left=0.1, right=0.97, bottom=0.11, top=0.9, hspace=0.22, wspace=0.12)
        for column, panel in zip(grid.T, data.panels, strict=True):
            _draw_column(column, panel, palette, several)
        for axes, name in zip(grid[:, 0], _ROWS, strict=False):
            axes.set_ylabel(name)
        for axes in grid.flat:
            axes.grid(visible=False, axis="x")
        figure.align_ylabels(grid[:, 0])
    return figure


def _draw_column(column: ndarray, panel: ParityPanel, palette: Palette, several: bool) -> None:
    for run in panel.runs:
        color = palette.series[0] if run.solved_step is not None else palette.series[1]
        curves = (run.loss, run.validation_accuracy, run.attention_mass)
        for axes, curve in zip(column, curves, strict=False):
            if curve is not None:
                axes.plot(run.step, curve, color=color, linewidth=1.0, alpha=0.75)
    _draw_chance(column[0], math.log(2), "chance: log 2", palette)
    _draw_chance(column[1], 0.5, "chance", palette)
    if len(column) > 2:
        _draw_chance(column[2], panel.s / (panel.T + 1), "uniform attention", palette)
        column[2].set_ylim(0, 1)
    column[0].set_title(f"T = {panel.T}, s = {panel.s}" if several else f"T = {panel.T}", pad=20)
    column[0].annotate(
        panel.summary(), (0, 1), xycoords="axes fraction", xytext=(0, 6), textcoords="offset points"
    )
    column[0].set_ylim(bottom=0)
    column[1].yaxis.set_major_formatter("{x:.0%}")
    column[-1].set(xlabel="step", xlim=(0, max(float(np.max(r.step)) for r in panel.runs)))


def _draw_chance(axes: Axes, level: float, text: str, palette: Palette) -> None:
    axes.axhline(level, color=palette.muted, linewidth=0.8, linestyle=(0, (2, 3)))
    axes.annotate(
        text,
        (1, level),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        fontsize="x-small",
        color=palette.muted,
    )
