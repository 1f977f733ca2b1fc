"""Figure 1: three attention modules as diagrams, drawn from computed scores and weights.

Read upwards: alignment scores (grey edges, darker = higher) connect the contexts (orange) to the
tokens. The scores become attention weights (blue edges, darker and wider = larger), and each output
is the sum of the tokens with these weights.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch
from matplotlib.patheffects import withStroke

from capax.boolean import SparseFunction
from capax.figures.heads.attention_examples import (
    FUNCTION,
    AttentionPanel,
    attention_panels,
    bits_from,
)
from capax.figures.style import Palette, styled

Number = float | int
Point = tuple[Number, Number]
CONTEXT, TOKEN, OUTPUT = 0.0, 1.75, 4.0  # heights of the three rows
RADIUS = 0.33
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)  # strengths shown in the key


def draw_attention_diagram(
    panels: tuple[AttentionPanel, ...] | None = None, *, dark: bool = False
) -> Figure:
    """Figure 1 as a Matplotlib figure; `panels` default to `attention_panels()`."""
    panels = attention_panels() if panels is None else panels
    widths = [len(panel.tokens) + 0.1 for panel in panels]
    with styled(dark, formulas=True) as palette:
        figure = Figure(figsize=(11.0, 4.3))
        grid = figure.add_gridspec(
            2, len(panels), width_ratios=widths, height_ratios=(7.0, 0.55), hspace=0, wspace=0.05
        )
        figure.subplots_adjust(left=0.098, right=0.998, bottom=0.01, top=0.995)
        for k, panel in enumerate(panels):
            ax = figure.add_subplot(grid[0, k])
            draw_panel(ax, panel, palette)
            if k == 0:
                _name_rows(ax, palette)
        _draw_key(figure.add_subplot(grid[1, :]), palette)
    return figure


def figure_1(
    function: str | SparseFunction = FUNCTION,
    bits: str | None = None,
    T: int | None = None,
    dark: bool = False,
) -> tuple[Figure, dict[str, Any]]:
    """Figure 1 for `function` on `bits` (or on T bits), and the numbers in it; needs no results."""
    panels = attention_panels(function, bits_from(bits, T))
    numbers = {
        panel.name: {
            "bits": panel.bits,
            "scores": panel.scores.tolist(),
            "weights": panel.weights.tolist(),
        }
        for panel in panels
    }
    return draw_attention_diagram(panels, dark=dark), numbers


def draw_panel(ax: Axes, panel: AttentionPanel, palette: Palette) -> None:
    """One module: three rows of nodes, grey edges below the tokens, blue edges above them."""
    num = len(panel.tokens)
    middle = (num - 1) / 2
    alone = len(panel.contexts) == 1
    places: list[Number] = [middle] if alone else list(range(num))
    ax.set(xlim=(-0.55, num - 0.45), ylim=(-1.0, 5.8), aspect="equal", anchor="C")
    ax.set_axis_off()
    _draw_edges(ax, panel, places, palette)
    for t in range(num):
        _draw_token(ax, t, panel.tokens[t], panel.bits[t], palette)
        if alone:
            _write_weight(ax, t, panel.weights[0, t], t - middle, palette)
    for x, context, output in zip(places, panel.contexts, panel.outputs, strict=True):
        _node(ax, (x, CONTEXT), context, palette.series[1], palette.background)
        _node(ax, (x, OUTPUT), output, palette.series[0], palette.background)
    if alone and panel.own_contexts[0] is not None:
        _mark_same(ax, panel.own_contexts[0], middle, palette)
    if panel.value:
        _write_value(ax, panel.value, places[0], palette)
    ax.text(middle, 5.5, panel.title, ha="center", va="center", fontsize=12, fontweight="bold")
    ax.text(middle, 4.83, panel.formula, ha="center", va="center", fontsize=11)
    ax.text(middle, -0.75, panel.remark, ha="center", va="center", fontsize=9)


def edge_color(strength: Number, color: str, background: str) -> str:
    """`color` mixed with the background: strength 0 is nearly invisible, 1 is the full colour."""
    share = 0.08 + 0.92 * min(max(float(strength), 0.0), 1.0)
    ends = zip(to_rgb(color), to_rgb(background), strict=True)
    red, green, blue = (share * near + (1 - share) * far for near, far in ends)
    return to_hex((red, green, blue))


def edge_width(weight: Number) -> float:
    """Line width of a blue edge, in points."""
    return 1.0 + 3.0 * float(weight)


def _draw_edges(
    ax: Axes, panel: AttentionPanel, places: Sequence[Number], palette: Palette
) -> None:
    """Weak edges first, so that strong ones lie on top."""
    low, high = panel.scores.min(), panel.scores.max()
    relative = (panel.scores - low) / max(high - low, 1e-12)
    pairs = [(q, t) for q in range(len(places)) for t in range(len(panel.tokens))]
    for q, t in sorted(pairs, key=lambda pair: relative[pair]):
        color = edge_color(relative[q, t], palette.ink, palette.background)
        _edge(ax, (places[q], CONTEXT), (t, TOKEN), color, 1.3)
    for q, t in sorted(pairs, key=lambda pair: panel.weights[pair]):
        weight = panel.weights[q, t]
        color = edge_color(weight, palette.series[0], palette.background)
        _edge(ax, (t, TOKEN), (places[q], OUTPUT), color, edge_width(weight))


def _edge(ax: Axes, start: Point, end: Point, color: str, width: float) -> None:
    xs, ys = zip(start, end, strict=True)
    ax.plot(xs, ys, color=color, linewidth=width, zorder=2, solid_capstyle="butt")


def _draw_token(ax: Axes, t: int, name: str, bit: int | None, palette: Palette) -> None:
    """A token: filled for a 1, hollow for a 0; [CLS] in the context's colour; many in grey."""
    if bit is None and name != "CLS":
        _node(ax, (t, TOKEN), name, palette.muted, palette.background)
    elif bit is None:
        _node(ax, (t, TOKEN), name, palette.series[1], palette.background)
    elif bit == 1:
        _node(ax, (t, TOKEN), name, palette.ink, palette.ink, text=palette.background)
    else:
        _node(ax, (t, TOKEN), name, palette.ink, palette.background)


def _node(ax: Axes, at: Point, name: str, rim: str, face: str, text: str | None = None) -> None:
    ax.add_patch(Circle(at, RADIUS, facecolor=face, edgecolor=rim, linewidth=1.4, zorder=4))
    small = not name.startswith("$")
    size, weight = (7.0, "bold") if small else (11.5, "normal")
    style: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 5}
    ax.text(*at, name, fontsize=size, fontweight=weight, color=text or rim, **style)


def _write_weight(ax: Axes, t: int, weight: float, offset: float, palette: Palette) -> None:
    """The weight as a number above its token, beside the edge if the edge is steep."""
    shown = f"{weight:.2f}".removeprefix("0") if weight >= 0.005 else "0"
    shift = 0.0 if abs(offset) > 1 else 0.24 if offset >= 0 else -0.24
    halo = [withStroke(linewidth=2.2, foreground=palette.background)]
    style: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 3, "path_effects": halo}
    ax.text(t + shift, TOKEN + 0.51, shown, fontsize=7.5, color=palette.series[0], **style)


def _mark_same(ax: Axes, token: int, x: float, palette: Palette) -> None:
    """A dotted arc between a token and the context that is the same token."""
    bow = FancyArrowPatch(
        (token, TOKEN - RADIUS),
        (x + RADIUS, CONTEXT),
        connectionstyle="arc3,rad=-0.32",
        arrowstyle="-",
        linestyle=(0, (1, 1.6)),
        linewidth=1.4,
        color=palette.series[1],
        shrinkA=1,
        shrinkB=1,
        zorder=3,
    )
    ax.add_patch(bow)


def _write_value(ax: Axes, value: str, x: float, palette: Palette) -> None:
    """An arrow from the output to the number that is read from it."""
    arrow = {"arrowstyle": "<|-", "color": palette.series[0], "linewidth": 1.3, "shrinkB": 0}
    box = {"boxstyle": "round,pad=0.4", "facecolor": palette.panel, "edgecolor": palette.series[0]}
    ax.annotate(
        value,
        xy=(x + RADIUS, OUTPUT),
        xytext=(x + 2.2, OUTPUT),
        ha="center",
        va="center",
        fontsize=11,
        color=palette.series[0],
        arrowprops=arrow,
        bbox=box,
        zorder=6,
    )


def _name_rows(ax: Axes, palette: Palette) -> None:
    """Names of the rows and of the edges between them, left of the first panel."""
    names = (
        (OUTPUT, "outputs", palette.series[0]),
        ((TOKEN + OUTPUT) / 2 + 0.1, "attention\nweights", palette.series[0]),
        (TOKEN, "tokens", palette.ink),
        ((TOKEN + CONTEXT) / 2, "alignment\nscores", palette.muted),
        (CONTEXT, "context", palette.series[1]),
    )
    for height, name, color in names:
        node_row = "\n" not in name
        weight = "bold" if node_row else "normal"
        ax.text(-0.75, height, name, ha="right", va="center", color=color, fontweight=weight)


def _draw_key(ax: Axes, palette: Palette) -> None:
    """The key: edges at five strengths, and filled and hollow tokens."""
    ax.set(xlim=(0, 100), ylim=(0, 1))
    ax.set_axis_off()
    _key_edges(ax, 16.0, "attention weight", ("0", "1"), palette.series[0], palette, True)
    _key_edges(ax, 49.0, "alignment score", ("lowest", "highest"), palette.ink, palette, False)
    for x, face, name in ((76.0, palette.ink, "bit 1"), (83.0, palette.background, "bit 0")):
        ax.plot([x], [0.5], "o", ms=9, mfc=face, mec=palette.ink, mew=1.2)
        ax.text(x + 1.4, 0.5, name, va="center", fontsize=8.5)


def _key_edges(
    ax: Axes, x: float, name: str, ends: tuple[str, str], color: str, palette: Palette, wide: bool
) -> None:
    style: dict[str, Any] = {"va": "center", "fontsize": 8.5}
    ax.text(x, 0.5, f"{name}   {ends[0]}", ha="right", **style)
    for k, strength in enumerate(STEPS):
        shade = edge_color(strength, color, palette.background)
        left = x + 1.0 + 2.6 * k
        width = edge_width(strength) if wide else 1.3
        ax.plot([left, left + 2.0], [0.5, 0.5], color=shade, linewidth=width, solid_capstyle="butt")
    ax.text(x + 1.4 + 2.6 * len(STEPS), 0.5, ends[1], ha="left", **style)
