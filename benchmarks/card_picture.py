"""The reference card as a picture: `python benchmarks/card_picture.py OUT.png`.

Examples needed on and3 against T, at 100 % and at 95 % accuracy, from the file that travels with
the package. Whiskers are intervals; an arrow marks an interval without an upper end, and a triangle
a threshold of which only the lower end is known.
"""

import math
import sys

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from capax.cards.answers.reference_card import reference_card
from capax.figures.style import save, styled

TARGET = "and3"
LEARNERS = ("transformer", "linear_attention", "ssm", "mlp", "lasso", "forest", "tree")
MARKS = "osD^vPX"
TICKS = (20, 50, 100, 200, 500, 1000, 2000)


def panel(axes, card, accuracy, colours, muted):
    """All learners at one accuracy, side by side where their lengths are the same."""
    rows = [r for r in card.rows if r.target == TARGET and r.accuracy == accuracy]
    lengths = sorted({r.T for r in rows})
    floors = {r.T: r.floor for r in rows}
    axes.plot(lengths, [floors[T] for T in lengths], color=muted, linestyle=":", label="floor")
    for k, name in enumerate(LEARNERS):
        own = sorted((r for r in rows if r.learner == name), key=lambda r: r.T)
        colour = colours[k % len(colours)]
        beside = 1.015 ** (k - len(LEARNERS) // 2)
        style = {"color": colour, "marker": MARKS[k], "markersize": 5, "linewidth": 1.4}
        found = [r.m_star or math.nan for r in own]  # the line ends where m* is not known
        axes.plot([r.T * beside for r in own], found, label=name, **style)
        for r in own:
            whisker(axes, r, r.T * beside, colour)
    axes.set(xscale="log", yscale="log", xlabel="context length T",
             title=f"{accuracy:.0%} accuracy".replace("%", " %"))  # fmt: skip
    axes.xaxis.set(major_locator=FixedLocator(lengths), minor_locator=NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0f}")
    axes.yaxis.set(major_locator=FixedLocator(TICKS), minor_locator=NullLocator())
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:.0f}")


def whisker(axes, row, x, colour):
    """The interval of a threshold, as far as it is known."""
    style = {"color": colour, "linewidth": 1, "alpha": 0.6}
    if row.m_star and row.high:
        axes.plot([x, x], [row.low, row.high], **style)
    elif row.m_star:
        axes.annotate("", (x, 1.5 * row.m_star), (x, row.low), arrowprops={
            "arrowstyle": "->", "color": colour, "alpha": 0.6, "shrinkA": 0, "shrinkB": 0,
        })  # fmt: skip
    elif row.low:
        axes.plot([x], [row.low], marker=6, markersize=6, **style)


def draw(card):
    with styled() as palette:
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        colours = (*palette.series, palette.ink)
        panel(left, card, 1.0, colours, palette.muted)
        panel(right, card, 0.95, colours, palette.muted)
        left.set_ylabel("training examples m*")
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return figure


if __name__ == "__main__":
    save(draw(reference_card()), sys.argv[1])
