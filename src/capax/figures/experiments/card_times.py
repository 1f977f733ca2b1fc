"""The time axis of a card: steps to solve parities against T, one panel for each s."""

from matplotlib.figure import Figure

from capax.cards.answers.card_rows import Card
from capax.errors import require
from capax.figures.experiments.card_curves import value_ticks
from capax.figures.labels import EndLabel, label_line_ends, tick_at
from capax.figures.style import styled


def draw_card_times(card: Card, *, dark: bool = False) -> Figure:
    """Medians with intervals; a triangle at the limit if fewer than half of the runs solved."""
    rows = [row for row in card.times if row.solved + row.censored]
    require(bool(rows), "card", "at least one learner with steps to solve", "a card without them")
    least = min(r.median or r.limit for r in rows) / 3  # lower end of intervals that begin at 0
    bits, names = sorted({r.s for r in rows}), list(dict.fromkeys(r.learner for r in rows))
    with styled(dark) as palette:
        figure = Figure(figsize=(4.2 * len(bits) + 0.4, 4.2), layout="constrained")
        parts = figure.subplots(1, len(bits), sharey=True, squeeze=False)[0]
        ends: list[list[EndLabel]] = []
        for axes, s in zip(parts, bits, strict=True):
            axes.set(xscale="log", yscale="log", xlabel="context length T", title=f"s = {s}")
            labels = []
            for place, name in enumerate(names):
                color = palette.series[place % len(palette.series)]
                style = "-" if place < len(palette.series) else "--"
                own = [r for r in rows if (r.learner, r.s) == (name, s)]
                steps = [r.median or r.limit for r in own]
                axes.plot([r.T for r in own], steps, color=color, ls=style, lw=1.3)
                for r, y in zip(own, steps, strict=True):
                    top = y if r.high is None else r.high
                    axes.plot(
                        [r.T, r.T], [max(r.low or 0, least), top], color=color, lw=1, alpha=0.6
                    )
                    axes.plot(r.T, y, "o" if r.median else "^", ms=4.5, color=color)
                if own:
                    text = name if own[-1].median else f"{name}: > {own[-1].limit}"
                    labels.append(EndLabel(float(steps[-1]), text, color))
            tick_at(axes, sorted({r.T for r in rows if r.s == s}))
            ends.append(labels)
        parts[0].set_ylabel("steps to solve (median)")
        value_ticks(parts[0].yaxis, parts[0].get_ylim())
        figure.draw_without_rendering()  # labels are placed at the ends of the lines
        for axes, labels in zip(parts, ends, strict=True):
            label_line_ends(axes, labels)
    return figure
