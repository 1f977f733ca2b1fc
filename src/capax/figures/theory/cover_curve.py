"""The curve eps -> N(S, eps): a decreasing step function inside a quickly computed bracket."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from capax.capacity.covers.covering_curve import CoverCurve, covering_curve
from capax.capacity.covers.metrics import FiniteSpace
from capax.figures.style import Palette, styled

MOST_LABELS = 6


def draw_curve(
    space: FiniteSpace, curve: CoverCurve, *, eps: float | int | None = None, dark: bool = False
) -> Figure:
    """N(S, eps) against eps on a logarithmic axis, with a bracket that needs no search.

    The shaded band comes from one farthest-first traversal. Its upper end is the number of centres
    that the traversal needs to reach eps; its lower end is the number of its points that are
    pairwise more than 2 eps apart. `eps` marks one radius. If the curve is not known exactly, both
    its proved ends are drawn.
    """
    with styled(dark) as palette:
        figure = Figure(figsize=(6.6, 4.0), layout="constrained")
        axes = figure.subplots()
        right = _right_edge(curve)
        _draw_band(axes, covering_curve(space, time_limit=0), right, palette)
        _draw_staircase(axes, curve, right, palette)
        _label_steps(axes, curve, right, eps, palette)
        if eps is not None:
            _mark(axes, curve, float(eps), palette)
        _finish(axes, space, curve, right)
    return figure


def _right_edge(curve: CoverCurve) -> float:
    """A little beyond the radius from which one ball suffices."""
    last = float(curve.eps[int(np.argmin(curve.upper))])
    return 1.25 * last if last > 0 else 1.0


def _steps(eps: np.ndarray, values: np.ndarray, right: float) -> tuple[np.ndarray, np.ndarray]:
    """Corners for a `steps-post` line that ends at the right edge."""
    inside = eps < right
    return np.append(eps[inside], right), np.append(values[inside], values[inside][-1])


def _draw_band(axes: Axes, bracket: CoverCurve, right: float, palette: Palette) -> None:
    x, low = _steps(bracket.eps, bracket.lower, right)
    _, high = _steps(bracket.eps, bracket.upper, right)
    axes.fill_between(
        x,
        low,
        high,
        step="post",
        color=palette.muted,
        alpha=0.16,
        lw=0,
        label="bracket from one traversal",
    )


def _draw_staircase(axes: Axes, curve: CoverCurve, right: float, palette: Palette) -> None:
    x, upper = _steps(curve.eps, curve.upper, right)
    name = "N(S, ε), exact" if curve.exact else "N(S, ε), best cover found"
    axes.step(x, upper, where="post", color=palette.series[0], linewidth=2, label=name)
    if not curve.exact:
        _, lower = _steps(curve.eps, curve.lower, right)
        axes.step(
            x,
            lower,
            where="post",
            color=palette.series[0],
            lw=1,
            ls=(0, (3, 2)),
            label="proved lower bound",
        )


def _label_steps(
    axes: Axes, curve: CoverCurve, right: float, marked: float | int | None, palette: Palette
) -> None:
    """Write N above its step where the step is wide enough and not marked already."""
    if not curve.exact:
        return
    jumps = curve.jumps()
    ends = [start for start, _ in jumps[1:]] + [right]
    wide = [(e, n, end) for (e, n), end in zip(jumps, ends, strict=True) if end - e > 0.035 * right]
    wide = [step for step in wide if marked is None or not step[0] <= marked < step[2]]
    for start, n, end in sorted(wide, key=lambda step: step[0] - step[2])[: 2 * MOST_LABELS]:
        axes.annotate(
            str(n),
            ((start + end) / 2, n),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=palette.series[0],
        )


def _mark(axes: Axes, curve: CoverCurve, eps: float, palette: Palette) -> None:
    lower, upper = curve(eps)
    text = f"N({eps:g}) = {upper}" if lower == upper else f"{lower} ≤ N({eps:g}) ≤ {upper}"
    axes.plot([eps], [upper], "o", color=palette.series[1], markersize=7, zorder=5)
    axes.annotate(
        text,
        (eps, upper),
        (9, 9),
        textcoords="offset points",
        color=palette.series[1],
        weight="bold",
    )


def _finish(axes: Axes, space: FiniteSpace, curve: CoverCurve, right: float) -> None:
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:g}"))
    axes.minorticks_off()
    axes.xaxis.set_major_locator(MaxNLocator(7))
    axes.set(xlim=(0, right), ylim=(0.85, max(2.0, 1.35 * len(space))))
    axes.set(xlabel="radius ε", ylabel="number of balls")
    kind = "" if curve.exact else " (interval)"
    axes.set_title(f"Covering number of {len(space)} points at every radius{kind}", loc="left")
    axes.legend(loc="upper right", frameon=False)
