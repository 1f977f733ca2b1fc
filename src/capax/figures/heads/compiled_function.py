"""A compiled function in one picture: its attention, its outputs, its norms.

Left: attention of the [CLS] query on a few inputs (the s relevant tokens, [CLS], and all other
tokens together). Middle: the truth table, the network's output at the two extremes of the
irrelevant bits. Right: the norms of the same construction from T = 10 to 10^6; only W_QK grows,
like log T.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from capax.boolean import SparseFunction
from capax.boolean.functions import only_bits
from capax.compiler import Compiled, compile
from capax.compiler.certificate.certificate import LABELS
from capax.figures.style import Palette, save, styled

LENGTHS = (10, 100, 1000, 10_000, 100_000, 1_000_000)
MAX_ROWS = 16  # patterns of the relevant bits that are drawn


def save_compiled_figure(path: Path | str, compiled: Compiled, *, dark: bool = False) -> Path:
    """Draw and write the picture; PNG, SVG or PDF by the suffix of `path`."""
    return save(draw_compiled_function(compiled, dark=dark), path)


def draw_compiled_function(compiled: Compiled, *, dark: bool = False) -> Figure:
    """The three panels as one Matplotlib figure."""
    f = compiled.certificate.sparse_function
    only_bits(f)
    rows = _patterns(f.s)
    with styled(dark, formulas=True) as palette:
        figure = Figure(figsize=(15, 1.8 + 0.3 * max(8, len(rows))), layout="constrained")
        look, answer, weigh = figure.subplots(1, 3, width_ratios=(1.2, 1, 1.1))
        _attention(look, compiled, rows, palette)
        _truth_table(answer, compiled, rows, palette)
        _norms(weigh, compiled, palette)
        c = compiled.certificate
        title = f"{c.function}   T = {c.T:,}, {c.encoding} encoding, {c.family}"
        figure.suptitle(title, parse_math=False)
    return figure


def _patterns(s: int) -> list[int]:
    """Rows of the truth table to draw: all of them, or evenly spread ones."""
    if 1 << s <= MAX_ROWS:
        return list(range(1 << s))
    return np.unique(np.linspace(0, (1 << s) - 1, MAX_ROWS).astype(int)).tolist()


def _input(f: SparseFunction, T: int, row: int, others: int) -> np.ndarray:
    """The input with pattern `row` on the support and every other bit equal to `others`."""
    bits = np.full(T, others, dtype=np.uint8)
    for i, position in enumerate(f.support):
        bits[position] = row >> i & 1
    return bits


def _names(f: SparseFunction, row: int) -> str:
    return "".join(str(row >> i & 1) for i in range(f.s)) or "any"


def _attention(axes: Axes, compiled: Compiled, rows: list[int], palette: Palette) -> None:
    f, T = compiled.certificate.sparse_function, compiled.certificate.T
    names = [*(f"x{i}" for i in f.support), "[CLS]", "all others"]
    left = np.zeros(len(rows))
    shares = np.array([_shares(compiled, _input(f, T, row, 1)) for row in rows])
    colours = [*palette.series, *palette.series, *palette.series, *palette.series][: f.s]
    for j, (name, colour) in enumerate(
        zip(names, [*colours, palette.muted, palette.line], strict=True)
    ):
        axes.barh(range(len(rows)), shares[:, j], left=left, color=colour, label=name, height=0.7)
        left += shares[:, j]
    axes.set_yticks(range(len(rows)), [_names(f, row) for row in rows], family="monospace")
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("attention of [CLS], irrelevant bits all on")
    support = "".join(f" x{i}" for i in f.support)
    axes.set_ylabel(f"pattern of{support}")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(6, len(names)))


def _shares(compiled: Compiled, bits: np.ndarray) -> np.ndarray:
    """Attention on each relevant token, on [CLS], and on all other tokens together."""
    _, weights = compiled.model(bits, return_weights=True)
    weights = np.asarray(weights, dtype=np.float64).reshape(-1)
    relevant = weights[list(compiled.certificate.sparse_function.support)]
    return np.array([*relevant, weights[-1], max(0.0, 1 - relevant.sum() - weights[-1])])


def _truth_table(axes: Axes, compiled: Compiled, rows: list[int], palette: Palette) -> None:
    f, T = compiled.certificate.sparse_function, compiled.certificate.T
    at = list(range(len(rows)))
    for others, marker in ((0, "o"), (1, "s")):
        outputs = [float(np.asarray(compiled.model(_input(f, T, row, others)))) for row in rows]
        word = "on" if others else "off"
        label = f"network, irrelevant bits all {word}"
        axes.plot(
            outputs, at, marker, mfc="none", mew=1.6, color=palette.series[others], label=label
        )
    for y, row in zip(at, rows, strict=True):
        value = f.table[row]
        axes.text(1.02, y, f"{value:g}", transform=axes.get_yaxis_transform(), va="center")
    if compiled.certificate.margin is not None:
        threshold = 0.0 if compiled.certificate.target == LABELS else 0.5
        axes.axvline(threshold, color=palette.muted, lw=1, ls=":")
    axes.set_yticks(at, [_names(f, row) for row in rows], family="monospace")
    axes.invert_yaxis()
    axes.set_xlabel("output (right: the value of the function)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _norms(axes: Axes, compiled: Compiled, palette: Palette) -> None:
    f, c = compiled.certificate.sparse_function, compiled.certificate
    lengths = [T for T in LENGTHS if f.s < T]
    found: dict[str, list[float]] = {}
    for T in lengths:
        moved = f.on(range(f.s), T)
        norms = compile(moved, T, encoding=c.encoding, family=c.family, eps=c.eps).certificate.norms
        for name, row in norms.items():
            found.setdefault(name, []).append(row["frobenius"])
    # ||W_QK|| = ||W_Q|| ||W_K||; zero biases are left out
    kept = [name for name, values in found.items() if name != "W_Q" and any(values)]
    for name, colour in zip(kept, palette.series * 2, strict=False):
        axes.plot(lengths, found[name], "o-", color=colour, label=name)
    axes.set_xscale("log")
    values = [value for name in kept for value in found[name] if value > 0]
    if max(values) > 100 * min(values):  # MLP weights dwarf the rest; log T is a line otherwise
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("T")
    axes.set_ylabel("Frobenius norm")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(4, len(kept)))
