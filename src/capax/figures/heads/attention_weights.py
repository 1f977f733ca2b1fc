"""Figure 3, right: where a trained model looks, head by head and example by example.

Each band is a head, each row in it an example, each column a position ([CLS] is last, after a gap).
The heads are ordered by how much the output depends on them: the rise of the loss when the head's
output is replaced by its mean. The number beside a band is the share of the head's attention on the
relevant positions I, out of the attention that does not go to [CLS]:

    share_h = mean over examples of  sum_{t in I} α_t / sum_{t <= T} α_t .

Idle heads are shown too: their attention is spread out, and the output does not depend on them.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Integer
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure, SubFigure
from numpy import ndarray

from capax.errors import require
from capax.figures.style import Palette, styled


@dataclass(frozen=True)
class AttentionMap:
    """One trained model. `weights[h, example, t]`, the last t is [CLS]; heads in order of effect.

    `share` and `effect` are measured on many examples, the weights shown belong to a few of them.
    """

    run_id: str
    T: int
    m: int
    support: tuple[int, ...]
    heads: tuple[str, ...]
    weights: Float[ndarray, "H examples columns"]
    bits: Integer[ndarray, "_ _"]
    share: Float[ndarray, " _"]
    effect: Float[ndarray, " _"]
    accuracy: float

    def __post_init__(self) -> None:
        num_heads, examples, columns = self.weights.shape
        require(columns == self.T + 1, "weights", f"T + 1 = {self.T + 1} columns", columns)
        require(len(self.heads) == num_heads, "heads", f"{num_heads} names", self.heads)
        require(self.share.size == num_heads, "share", f"{num_heads} values", self.share.size)
        require(self.effect.size == num_heads, "effect", f"{num_heads} values", self.effect.size)
        require(self.bits.shape == (examples, self.T), "bits", "examples x T", self.bits.shape)
        require(all(0 <= t < self.T for t in self.support), "support", "0..T-1", self.support)


def draw_attention_weights(maps: tuple[AttentionMap, ...], *, dark: bool = False) -> Figure:
    """Figure 3, right, as a Matplotlib figure: the models side by side."""
    require(maps, "maps", "at least one model", maps)
    with styled(dark) as palette:
        figure = Figure(figsize=(4.8 * len(maps), 5.2))
        fill_attention_weights(figure, maps, palette)
    return figure


def fill_attention_weights(
    figure: Figure | SubFigure, maps: tuple[AttentionMap, ...], palette: Palette
) -> None:
    """Draw into an empty figure, or a part of one."""
    names = [_room_for_names(attention, figure) for attention in maps]
    spaces = [0.02 + max(0.0, room - 0.07 / len(maps)) * 1.4 * len(maps) for room in names]
    widths = [width for space in [*spaces[1:], 0.02] for width in (1, 0.15, 0.15, space)]
    panels = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
    left = max(0.07, names[0])
    figure.subplots_adjust(left=left, right=0.99, bottom=0.13, top=0.86, wspace=0.06)
    for k, attention in enumerate(maps):
        strip, share, effect, space = panels[4 * k : 4 * k + 4]
        _draw_weights(strip, attention, palette)
        _draw_bars(share, attention.share, attention, palette.series[1], "on I")
        _draw_bars(effect, attention.effect, attention, palette.muted, "loss\nwithout")
        space.set_axis_off()
    key = (
        "Colour: square root of the attention weight, 0 to 1. Triangles: the relevant positions I."
    )
    figure.text(0.012, 0.015, key, fontsize="small", color=palette.muted)


def _room_for_names(attention: AttentionMap, figure: Figure | SubFigure) -> float:
    """Share of the figure's width that the names of the heads need, beside their bands."""
    if len(attention.heads) == 1:
        return 0.0
    inches = 0.1 + 0.055 * max(map(len, attention.heads))
    return inches / (figure.bbox.width / figure.dpi)


def image_of_weights(
    weights: Float[ndarray, "H examples columns"], color: str, *, gap: int
) -> Float[ndarray, "rows width 4"]:
    """Bands of heads as an RGBA image: opacity √α, `gap` rows between heads, [CLS] apart."""
    num_heads, examples, columns = weights.shape
    image = np.zeros((num_heads * (examples + gap) - gap, columns + 1, 4))
    image[..., :3] = to_rgb(color)
    for h in range(num_heads):
        rows = slice(h * (examples + gap), h * (examples + gap) + examples)
        opacity = np.sqrt(np.clip(weights[h], 0, 1))
        image[rows, : columns - 1, 3] = opacity[:, :-1]
        image[rows, columns, 3] = opacity[:, -1]
    return image


def _centres(attention: AttentionMap, gap: int) -> Float[ndarray, " H"]:
    num_heads, examples, _ = attention.weights.shape
    return np.arange(num_heads) * float(examples + gap) + (examples - 1) / 2


def _gap(attention: AttentionMap) -> int:
    return max(1, attention.weights.shape[1] // 6)


def _draw_weights(axes: Axes, attention: AttentionMap, palette: Palette) -> None:
    gap = _gap(attention)
    image = image_of_weights(attention.weights, palette.series[0], gap=gap)
    axes.imshow(image, aspect="auto", interpolation="nearest")
    num_heads = len(attention.heads)
    heads = "1 head" if num_heads == 1 else f"{num_heads} heads, most needed first"
    axes.set_title(f"{heads}\nT = {attention.T}, m = {attention.m}", pad=18)
    names = list(attention.heads) if num_heads > 1 else [""]
    axes.set_yticks(_centres(attention, gap), names, fontsize="x-small")
    shown = list(range(0, attention.T, 10))
    axes.set_xticks([*shown, attention.T + 1], [*map(str, shown), "CLS"], fontsize="x-small")
    axes.set_xlabel("position")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for t in attention.support:
        _mark_relevant(axes, t, palette)


def _mark_relevant(axes: Axes, t: int, palette: Palette) -> None:
    axes.annotate(
        f"{t}\n▾",
        (t, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 0),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize="x-small",
        color=palette.series[1],
        fontweight="bold",
        linespacing=0.9,
        annotation_clip=False,
    )


def _draw_bars(
    axes: Axes, values: Float[ndarray, " H"], attention: AttentionMap, color: str, title: str
) -> None:
    gap = _gap(attention)
    centres = _centres(attention, gap)
    examples = attention.weights.shape[1]
    rows = len(values) * (examples + gap) - gap
    largest = max(1.0 if title == "on I" else 1e-9, float(np.max(np.abs(values))))
    height = min(0.05 * rows, 0.9 * examples)
    axes.barh(centres, np.maximum(values, 0), height=height, color=color, alpha=0.35)
    for centre, value in zip(centres, values, strict=True):
        text = f"{value:.2f}" if title == "on I" else f"{value:+.2g}"
        axes.annotate(text, (0.04 * largest, centre), va="center", fontsize="x-small")
    axes.set(xlim=(0, largest), ylim=(rows - 0.5, -0.5))
    axes.set_title(title, fontsize="x-small", fontweight="normal")
    axes.set_axis_off()
