"""A card as a picture: examples needed against T, one panel for each target and accuracy.

The user's own learners have strong lines. Up to `most` learners have colours and names; all others
are faint and unnamed. At a single T there are no lines: each learner has a row, ordered by m*.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from capax.cards.answers.card_rows import Card, Row
from capax.errors import require
from capax.figures.labels import EndLabel, grouped, label_line_ends, tick_at
from capax.figures.style import LIGHT, Palette, styled

MOST = 8
MARKS = "osD^vPX*"
TICKS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000,
         50_000)  # fmt: skip
MAX_PANELS = 6
COLOURS = len(LIGHT.series)
"""Further learners use the same colours again, with dashed lines."""


@dataclass(frozen=True)
class LineLook:
    """Colour and mark of a learner; learners without a name are drawn for comparison only."""

    colour: str
    mark: str
    own: bool
    named: bool
    place: int

    @property
    def line(self) -> dict[str, Any]:
        """Arguments of a line."""
        if not self.named:
            return {"color": self.colour, "linewidth": 0.8, "alpha": 0.35, "zorder": 1}
        return {"color": self.colour, "linewidth": 2.6 if self.own else 1.3, "marker": self.mark,
                "linestyle": "-" if self.place < COLOURS else (0, (4, 1.5)),
                "markersize": 6.5 if self.own else 4.5, "zorder": 4 if self.own else 3}  # fmt: skip


def draw_card(
    card: Card,
    *,
    targets: Sequence[str] = (),
    accuracies: Sequence[float] = (),
    most: int = MOST,
    dark: bool = False,
) -> Figure:
    """The picture of a card.

    targets, accuracies: which panels (default: all targets at the highest accuracy; for a single
    target its highest and lowest accuracy). most: how many learners have a name and a colour.
    """
    require(bool(card.rows), "card", "at least one row", "an empty card")
    require(most >= 1, "most", "at least 1 learner", most)
    panels = _panels(card, targets, accuracies)
    lengths = {row.T for row in card.rows}
    with styled(dark) as palette:
        looks = looks_of(card, most, palette)
        single = len(lengths) == 1
        rows = len(card.names) + 2 if single else 0
        size = (4.9 * len(panels) + 0.4, max(3.6, 0.24 * rows + 1.2) if single else 4.4)
        figure = Figure(figsize=size, layout="constrained")
        parts = figure.subplots(1, len(panels), sharey=not single, squeeze=False)[0]
        for axes, panel in zip(parts, panels, strict=True):
            draw = _ladder if single else _lines
            draw(axes, panel, looks, palette)
        if not single:
            parts[0].set_ylabel("training examples m*")
            figure.draw_without_rendering()  # labels are placed at the ends of the lines
            for axes, panel in zip(parts, panels, strict=True):
                _name_lines(axes, panel, looks, palette)
    return figure


@dataclass(frozen=True)
class _CardPanel:
    """One panel of the picture: a target at one accuracy."""

    card: Card
    target: str
    accuracy: float

    @property
    def rows(self) -> list[Row]:
        wanted = (self.target, self.accuracy)
        return [row for row in self.card.rows if (row.target, row.accuracy) == wanted]

    @property
    def title(self) -> str:
        return f"{self.target}, {100 * self.accuracy:.4g} % accuracy"


def _panels(card: Card, targets: Sequence[str], accuracies: Sequence[float]) -> list[_CardPanel]:
    known = card.target_names
    for name in targets:
        require(name in known, "target", f"one of {', '.join(known)}", name)
    chosen = list(targets or known)
    levels = sorted({row.accuracy for row in card.rows if row.target in chosen}, reverse=True)
    for level in accuracies:
        require(level in levels, "accuracy", f"one of {levels}", level)
    ends = list(dict.fromkeys((levels[0], levels[-1])))
    shown = list(accuracies) or (ends if len(chosen) == 1 else levels[:1])
    panels = [_CardPanel(card, target, level) for target in chosen for level in shown]
    require(len(panels) <= MAX_PANELS, "targets", f"at most {MAX_PANELS} panels", len(panels))
    return panels


def looks_of(card: Card, most: int, palette: Palette) -> dict[str, LineLook]:
    """The user's own learners come first, then the others by the number of examples they need."""
    own = [name for name in card.names if name in card.measured]
    others = sorted((name for name in card.names if name not in own), key=lambda n: _need(card, n))
    named = [*own, *others][:most]
    context = len(own) < len(card.names)  # emphasise the user's learners only beside others
    colours = palette.series
    found = {}
    for place, name in enumerate([*own, *others]):
        colour = colours[place % len(colours)] if name in named else palette.muted
        found[name] = LineLook(colour, MARKS[place % len(MARKS)], context and name in own,
                           name in named, place)  # fmt: skip
    return found


def _need(card: Card, name: str) -> float:
    """Mean log m* of a learner at the highest accuracy; infinite if unknown, so it sorts last."""
    top = max(row.accuracy for row in card.rows)
    own = [row for row in card.rows if row.learner == name and row.accuracy == top]
    known = [
        math.log(row.m_star) if row.m_star else math.log(10.0 * (row.low or 1000)) for row in own
    ]
    return sum(known) / len(known) if known else math.inf


def _lines(axes: Axes, panel: _CardPanel, looks: dict[str, LineLook], palette: Palette) -> None:
    rows = panel.rows
    lengths = sorted({r.T for r in rows})
    axes.set(xscale="log", yscale="log", xlabel="context length T")
    axes.set_title(panel.title)
    floors = {r.T: r.floor for r in rows}
    axes.plot(lengths, [floors[T] or math.nan for T in lengths], color=palette.muted, linestyle=":")
    for name, look in looks.items():
        own = sorted((r for r in rows if r.learner == name), key=lambda r: r.T)
        aside = 1.015 ** ((look.place % MOST) - MOST // 2) if look.named else 1.0
        # the line ends where m* is not known
        axes.plot([r.T * aside for r in own], [r.m_star or math.nan for r in own], **look.line)
        if look.named:
            for row in own:
                _interval(axes, row, row.T * aside, look, vertical=True)
    axes.set_xlim(lengths[0] / 1.12, lengths[-1] * 1.12)
    tick_at(axes, lengths)
    value_ticks(axes.yaxis, axes.get_ylim())


def value_ticks(axis: Axis, limits: tuple[float, float]) -> None:
    """Ticks at round numbers within the limits."""
    inside = [t for t in TICKS if limits[0] <= t <= limits[1]]
    axis.set_major_locator(FixedLocator(inside))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda v, _: grouped(float(v))))


def _interval(axes: Axes, row: Row, at: float, look: LineLook, *, vertical: bool) -> None:
    """The interval of m*; an arrowhead if its upper end is unknown."""
    style: dict[str, Any] = {
        "color": look.colour,
        "linewidth": 1.6 if look.own else 1.0,
        "alpha": 0.6,
    }
    low, high = row.low or row.m_star, row.high
    if low is None:
        return
    ends = [low, high or 1.4 * max(low, row.m_star or low)]
    x, y = ([at, at], ends) if vertical else (ends, [at, at])
    axes.plot(x, y, **style, zorder=2)
    if high is None:
        mark = "^" if vertical else ">"
        axes.plot(x[1:], y[1:], marker=mark, markersize=4.5, color=look.colour, alpha=0.8, zorder=2)


def _name_lines(
    axes: Axes, panel: _CardPanel, looks: dict[str, LineLook], palette: Palette
) -> None:
    rows = sorted(panel.rows, key=lambda r: r.T)
    ends: list[EndLabel] = []
    for name, look in looks.items():
        known = [r for r in rows if r.learner == name and (r.m_star or r.low)]
        if look.named and known:
            last = known[-1]
            text = name if last.m_star else f"{name}: > {last.low}"
            height = float(last.m_star or last.low or 1)
            ends.append(EndLabel(height, text, look.colour, look.own))
    floors = [r.floor for r in rows if r.floor]
    if floors:
        ends.append(EndLabel(float(floors[-1]), "floor", palette.muted))
    label_line_ends(axes, ends)


def _ladder(axes: Axes, panel: _CardPanel, looks: dict[str, LineLook], palette: Palette) -> None:
    """One T: a row for every learner with its name, the fewest examples on top."""
    rows = panel.rows
    ordered = sorted(rows, key=lambda r: (r.m_star is None, r.m_star or r.low or math.inf))
    axes.set(xscale="log", xlabel=f"training examples m* at T = {rows[0].T}")
    axes.set_title(panel.title)
    if rows[0].floor:
        axes.axvline(rows[0].floor, color=palette.muted, linestyle=":")
    for place, row in enumerate(ordered):
        look = looks[row.learner]
        if row.m_star:
            look_of_point: dict[str, Any] = {
                **look.line,
                "linestyle": "",
                "marker": look.mark,
                "alpha": 1.0,
            }
            axes.plot([row.m_star], [place], **look_of_point)
        _interval(axes, row, float(place), look, vertical=False)
    limits = axes.get_xlim()
    for place, row in enumerate(ordered):
        if not row.m_star and not row.low:
            reason = f" {panel.card.note(row)[:40]}"
            axes.text(limits[0], place, reason, va="center", fontsize="small", color=palette.muted)
    axes.set_yticks(range(len(ordered)), [row.learner for row in ordered])
    for label, row in zip(axes.get_yticklabels(), ordered, strict=True):
        look = looks[row.learner]
        label.set(color=look.colour, fontweight="bold" if look.own else "normal")
    axes.set_ylim(len(ordered) - 0.4, -0.6)
    value_ticks(axes.xaxis, axes.get_xlim())
    if rows[0].floor:
        axes.annotate("floor", (rows[0].floor, 1), xycoords=("data", "axes fraction"),
                      xytext=(3, -2), textcoords="offset points", va="top", fontsize="small",
                      color=palette.muted)  # fmt: skip
