"""Figure 3, left: training fits both samples, but only the larger one generalises.

Validation accuracy (solid) and training accuracy (dashed) against the step, for sample sizes above
and below the threshold m*(T) on the same problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from numpy import ndarray

from capax.errors import require
from capax.figures.labels import EndLabel, label_line_ends
from capax.figures.style import Palette, styled


@dataclass(frozen=True)
class LearningCurve:
    """One run: accuracies at the evaluated steps."""

    run_id: str
    m: int
    step: Float[ndarray, " n"]
    train_accuracy: Float[ndarray, " n"]
    validation_accuracy: Float[ndarray, " n"]
    solved_step: int | None


@dataclass(frozen=True)
class LearningCurves:
    """Runs on one task with different m; `threshold` is m*(T), None if unknown."""

    task: str
    T: int
    curves: tuple[LearningCurve, ...]
    threshold: int | None = None

    def __post_init__(self) -> None:
        require(self.curves, "curves", "at least one run", self.curves)

    @property
    def sample_sizes(self) -> tuple[int, ...]:
        """The values of m, largest first."""
        return tuple(sorted({curve.m for curve in self.curves}, reverse=True))


def draw_learning_curves(data: LearningCurves, *, dark: bool = False) -> Figure:
    """Figure 3, left, as a Matplotlib figure."""
    with styled(dark) as palette:
        figure = Figure(figsize=(6.2, 3.6))
        fill_learning_curves(figure, data, palette)
    return figure


def fill_learning_curves(
    figure: Figure | SubFigure, data: LearningCurves, palette: Palette
) -> None:
    """Draw into an empty figure or subfigure."""
    axes = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.73, bottom=0.15, top=0.88)
    draw_accuracies(axes, data, palette)
    axes.grid(visible=False, axis="x")


def draw_accuracies(axes: Axes, data: LearningCurves, palette: Palette) -> None:
    """The panel itself: one colour per m, validation solid, training dashed."""
    labels = [EndLabel(1.0, "training: dashed", palette.muted)]
    for m, color in zip(data.sample_sizes, palette.series, strict=False):
        chosen = [curve for curve in data.curves if curve.m == m]
        width = 2.0 if len(chosen) == 1 else 1.0
        for curve in chosen:
            axes.plot(curve.step, curve.validation_accuracy, color=color, linewidth=width)
            axes.plot(curve.step, curve.train_accuracy, color=color, linewidth=1, ls=(0, (3, 2)))
        labels.append(_label(m, chosen, color))
    axes.set(title=_title(data), xlabel="step", ylim=(0.45, 1.02))
    axes.set_xlim(left=0)
    axes.yaxis.set_major_formatter("{x:.0%}")
    label_line_ends(axes, labels)


def _label(m: int, curves: Sequence[LearningCurve], color: str) -> EndLabel:
    last = float(np.mean([curve.validation_accuracy[-1] for curve in curves]))
    shown = "100%" if last == 1 else f"{100 * last:.1f}%"
    return EndLabel(last, f"m = {m}: validation {shown}", color, bold=True)


def _title(data: LearningCurves) -> str:
    threshold = f", threshold m* = {data.threshold}" if data.threshold else ""
    return f"Accuracy, {data.task}, T = {data.T}{threshold}"
