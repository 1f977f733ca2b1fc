"""The ablation of the published protocol as a picture and a table: what each part costs.

    capax sweep ablation --jobs 6 --store ablation.sqlite      # on a GPU
    python benchmarks/ablation_picture.py docs/images/ablation.png ablation.sqlite

Several stores may share the panels among them. A T counts when all its trials are done: of those
done first too many are solved. The published setting itself is taken from the reference
`reproduction`, which has 640 trials at each T instead of 84.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from capax.analysis.reference.published import published
from capax.analysis.threshold import Threshold, thresholds
from capax.figures.labels import tick_at
from capax.figures.style import Palette, save, styled
from capax.reading import existing_store
from capax.sweep.storage.store import Store

RULES = {
    "99": "solved above 99 %, best of the run",
    "all": "solved when every answer is right",
    "end": "solved above 99 % at the end",
}
LENGTHS = (100, 300, 600, 1100)
TOP = 175  # the largest m tried is 150


@dataclass(frozen=True)
class Setting:
    """One panel of the ablation, by the parts of its name."""

    rule: str
    dropout: bool
    coupled: bool
    clip: bool

    @classmethod
    def named(cls, panel: str) -> "Setting":
        rule, dropout, decay, clip = panel.split("/")
        return cls(rule, dropout == "on", decay == "coupled", clip == "1")

    @property
    def words(self) -> str:
        decay = "decay inside Adam" if self.coupled else "decoupled decay"
        dropout = "dropout 0.1" if self.dropout else "no dropout"
        return f"{decay}, {dropout}, {'clipped' if self.clip else 'not clipped'}"


def finished(paths: Sequence[Path]) -> dict[Setting, list[Threshold]]:
    """m* of every setting at every T that is complete."""
    found: dict[Setting, list[Threshold]] = {}
    for path in paths:
        with Store.read(path) as store:
            left = {(job.panel, job.T) for job in store.unfinished()}
            for panel in store.experiment.panels:
                if all((panel.name, T) in left for T in panel.T):
                    continue
                known = thresholds(store, panel.name, floors=False)
                own = found.setdefault(Setting.named(panel.name), [])
                own += [t for t in known if (panel.name, t.T) not in left]
    with Store.read(existing_store("reproduction")) as store:
        known = thresholds(store, floors=False)
    found[Setting("99", True, True, True)] = [t for t in known if t.T in LENGTHS]
    return {s: sorted(t, key=lambda x: x.T) for s, t in found.items() if t}


def draw(found: dict[Setting, list[Threshold]]) -> Figure:
    """A panel for every success rule; colour is the decay, a full mark dropout, a line clipping."""
    rules = [rule for rule in RULES if any(s.rule == rule for s in found)]
    with styled(False) as palette:
        figure = Figure(figsize=(3.3 * len(rules) + 0.6, 4.6))
        panels = figure.subplots(1, len(rules), sharey=True, squeeze=False)[0]
        figure.subplots_adjust(left=0.07, right=0.985, bottom=0.25, top=0.92, wspace=0.06)
        for axes, rule in zip(panels, rules, strict=True):
            own = {s: t for s, t in found.items() if s.rule == rule}
            for rank, (setting, known) in enumerate(own.items()):
                _curve(axes, setting, known, rank - (len(own) - 1) / 2, palette)
            points = [q for q in published().figure2 if q.T in LENGTHS]
            bars = [q.deviation for q in points]
            T, m = [q.T for q in points], [q.m_star for q in points]
            axes.errorbar(T, m, yerr=bars, fmt="D", color=palette.ink, markersize=4, capsize=2)
            axes.set_xscale("log")
            axes.set(title=RULES[rule], xlabel="context length T (log scale)", ylim=(0, TOP))
            axes.title.set_fontsize("small")
            tick_at(axes, LENGTHS)
            axes.grid(visible=False, axis="x")
        panels[0].set_ylabel("examples needed for 80 % success, m*")
        figure.legend(handles=_legend(palette), loc="lower center", ncol=3, fontsize="x-small")
    return figure


def _look(setting: Setting, palette: Palette) -> dict[str, object]:
    color = palette.series[1 if setting.coupled else 0]
    full = color if setting.dropout else palette.background
    line = "-" if setting.clip else (0, (3, 2))
    return {"color": color, "markerfacecolor": full, "linestyle": line}


def _curve(
    axes: Axes, setting: Setting, known: list[Threshold], rank: float, palette: Palette
) -> None:
    """Numbers joined by a line; intervals, with an arrow head on a side that is open."""
    look, aside = _look(setting, palette), 1 + 0.028 * rank
    for t in known:
        low, high = t.low or 0, t.high or TOP
        axes.plot([t.T * aside] * 2, [low, high], color=look["color"], linewidth=0.9, alpha=0.5)
        for open_side, y, mark in ((t.low, 2, "v"), (t.high, TOP - 2, "^")):
            if open_side is None:
                axes.plot(t.T * aside, y, mark, color=look["color"], markersize=3, alpha=0.5)
    numbers = [(t.T * aside, t.m_star) for t in known if t.m_star is not None]
    if numbers:
        axes.plot(*zip(*numbers, strict=True), marker="o", markersize=5, linewidth=1.1, **look)


def _legend(palette: Palette) -> list[Line2D]:
    gray = {"color": palette.muted}
    return [
        Line2D([], [], color=palette.series[1], label="decay inside Adam"),
        Line2D([], [], color=palette.series[0], label="decoupled decay"),
        Line2D([], [], marker="D", linestyle="", color=palette.ink, label="published"),
        Line2D([], [], marker="o", linestyle="", label="dropout 0.1", **gray),
        Line2D([], [], marker="o", linestyle="", mfc="none", label="no dropout", **gray),
        Line2D([], [], marker="^", linestyle="", label="interval open on this side", **gray),
        Line2D([], [], label="gradients clipped at norm 1", **gray),
        Line2D([], [], linestyle=(0, (3, 2)), label="not clipped", **gray),
    ]


def table(found: dict[Setting, list[Threshold]]) -> str:
    """Markdown: a row for every setting, m* with its interval at every T."""
    lengths = sorted({t.T for known in found.values() for t in known})
    head = ["rule", "setting", *(f"T = {T}" for T in lengths)]
    rows = [head, ["---"] * len(head)]
    for rule in RULES:
        for setting, known in found.items():
            if setting.rule == rule:
                cells = {t.T: _cell(t) for t in known}
                rows.append([rule, setting.words, *(cells.get(T, "") for T in lengths)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(t: Threshold) -> str:
    ends = f"{t.low} to {t.high}" if t.status == "closed" else t.status
    return ends if t.m_star is None else f"{t.m_star} ({ends})"


if __name__ == "__main__":
    settings = finished([Path(name) for name in sys.argv[2:]])
    save(draw(settings), Path(sys.argv[1]))
    print(table(settings))
