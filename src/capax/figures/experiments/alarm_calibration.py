"""Calibration of alarms: of the runs with a predicted chance of 80 %, how many were solved?"""

from matplotlib.figure import Figure

from capax.analysis.times.alarm_fit import Judged
from capax.figures.style import styled

_TITLES = {
    "loss": "loss alone",
    "blind": "progress, positions unknown",
    "knowing": "progress, positions known",
}


def draw_calibration(judged: Judged, *, dark: bool = False) -> Figure:
    """A panel for each alarm: share solved against the predicted chance, with 95% intervals."""
    kinds = [kind for kind in _TITLES if kind in judged.chances]
    with styled(dark) as palette:
        figure = Figure(figsize=(3.0 * len(kinds), 3.2))
        panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        for axes, kind, color in zip(panels, kinds, palette.series, strict=False):
            axes.plot([0, 1], [0, 1], color=palette.muted, lw=0.8, ls=":")
            for row in judged.calibration(kind):
                x = row["chance"]
                axes.plot([x, x], [row["low"], row["high"]], color=color, lw=1.2, alpha=0.6)
                axes.plot(x, row["share"], "o", ms=4, color=color)
            axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="predicted chance")
            axes.set_title(f"{_TITLES[kind]}\nBrier {judged.brier(kind):.3f}", fontsize=9)
        panels[0].set_ylabel("share solved")
        figure.subplots_adjust(left=0.09, right=0.98, bottom=0.16, top=0.84, wspace=0.12)
    return figure
