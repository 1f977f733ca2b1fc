"""The verdicts of `decompile.py solved` as a picture: `decompile_picture.py OUT.png LOG ...`."""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

from capax.figures.style import save, styled

SETS = {
    "t50": "T = 50, 1000 steps",
    "t50exit": "T = 50, stopped when solved",
    "t300": "T = 300, 1000 steps",
}
KINDS = ("proved on all inputs", "proved on most inputs", "open", "refuted")
MOST = 0.55


def kind(row):
    """A stated set of cells counts where it has clearly more than half of the probability."""
    if row["status"] == "open":
        return KINDS[1] if row["proved_share"] > MOST else KINDS[2]
    return {"proved": KINDS[0], "refuted": KINDS[3]}[row["status"]]


def read(logs):
    rows = [json.loads(line) for log in logs for line in Path(log).read_text().splitlines()]
    return {name: [r for r in rows if r.get("part") == name] for name in SETS}


def bars(axes, runs, colours):
    """How many runs of each set have which verdict."""
    for y, name in enumerate(runs):
        left = 0.0
        for label, colour in zip(KINDS, colours, strict=True):
            share = sum(kind(r) == label for r in runs[name])
            width = 100 * share / max(1, len(runs[name]))
            axes.barh(y, width, left=left, color=colour, height=0.55)
            if share:
                axes.text(left + width / 2, y, str(share), ha="center", va="center", color="white",
                          fontsize="small", fontweight="bold")  # fmt: skip
            left += width
    names = [f"{SETS[name]}\n{len(rows)} runs" for name, rows in runs.items()]
    axes.set_yticks(range(len(runs)), names, fontsize="small")
    axes.set(xlim=(0, 100), xlabel="% of the runs", title="Is the formula proved?")
    axes.invert_yaxis()
    axes.grid(visible=False)


def shares(axes, rows, colours):
    """For every run that is not proved whole: the probability of what is proved."""
    rows = sorted((r for r in rows if r["status"] != "proved"), key=lambda r: -r["proved_share"])
    for y, row in enumerate(rows):
        colour = colours[KINDS.index(kind(row))]
        axes.barh(y, 100 * row["proved_share"], color=colour, height=0.7)
        # cut down, not rounded: 100.00 % is for proofs
        text = f"{int(1e4 * row['proved_share']) / 100:.2f} %"
        axes.text(100 * row["proved_share"] + 1, y, text, va="center", fontsize="x-small")
    axes.set_yticks(range(len(rows)), [f"run {r['run']}" for r in rows], fontsize="x-small")
    axes.set(xlim=(0, 125), xticks=range(0, 101, 25), xlabel="% of inputs on which it is proved",
             title="T = 300: runs not proved whole")  # fmt: skip
    axes.invert_yaxis()


def draw(runs):
    with styled() as palette:
        colours = (palette.series[2], palette.series[0], palette.muted, palette.series[1])
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        bars(left, runs, colours)
        shares(right, runs["t300"], colours)
        marks = [left.barh(0, 0, color=c, label=k) for k, c in zip(KINDS, colours, strict=True)]
        figure.legend(handles=marks, loc="outside lower center", ncols=4, frameon=False)
    return figure


if __name__ == "__main__":
    save(draw(read(sys.argv[2:])), sys.argv[1])
