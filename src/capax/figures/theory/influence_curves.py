"""Hahn's limit in one picture: the influence of one token against T, and the scores it needs.

Left: at constant scores the influence falls as 1/T (the bound, and a head that attains it). So does
the influence of a compiled head whose W_QK keeps the norm of the first length. With scores of
(1/2) ln T, or with its own norm, the influence stays constant. Right: half the range of the scores
of the compiled head, and the smallest range that its margin allows.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.figures.style import Palette, styled
from capax.statements.forms.token_influence import InfluenceRow


def draw_influence(
    rows: Sequence[InfluenceRow], function: str, margin: float, *, dark: bool = False
) -> Figure:
    """The two panels."""
    with styled(dark) as palette:
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_influence(left, rows, function, palette)
        _draw_scores(right, rows, margin, palette)
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xlabel("T")
            axes.legend()
    return figure


def _draw_influence(
    axes: Axes, rows: Sequence[InfluenceRow], function: str, palette: Palette
) -> None:
    T = [r.T for r in rows]
    constant, own, first = palette.series[:3]
    S = f"S = {rows[0].S:g}"
    axes.plot(T, [r.constant_bound for r in rows], color=constant, label=f"bound, {S}")
    attained = [r.constant_attained for r in rows]
    axes.plot(T, attained, "o", color=constant, ms=5, label=f"attained, {S}")
    logs = [r.log_attained for r in rows]
    axes.plot(T, logs, "o-", color=own, ms=5, label="attained, S = (1/2) ln T")
    kept = [r.compiled.measured for r in rows]
    axes.plot(T, kept, "s--", color=own, ms=4, label=f"{function}, its own norm")
    falling = [r.compiled_at_first_norm for r in rows]
    axes.plot(T, [h.bound for h in falling], color=first, label=f"bound, norm of T = {T[0]}")
    label = f"{function}, norm of T = {T[0]}"
    axes.plot(T, [h.measured for h in falling], "s", color=first, ms=4, label=label)
    axes.set_yscale("log")
    axes.set_ylabel("largest change of the output by one token")


def _draw_scores(axes: Axes, rows: Sequence[InfluenceRow], margin: float, palette: Palette) -> None:
    T = [r.T for r in rows]
    needed = [r.smallest_score for r in rows]
    own, least = [r.compiled.S for r in rows], [r.compiled.smallest_S for r in rows]
    axes.plot(T, needed, color=palette.series[0], label=f"needed for margin {margin:g}, B = 1")
    axes.plot(T, least, color=palette.series[1], label="needed for the compiled head's influence")
    axes.plot(T, own, "s--", color=palette.series[1], ms=4, label="the compiled head")
    axes.set_ylabel("S, half the range of the scores")
    axes.set_ylim(bottom=0)
