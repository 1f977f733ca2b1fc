"""Heads as a map: one panel per quantity, layers down, heads across."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure

from capax.errors import require
from capax.figures.style import Palette, styled

Rows = Sequence[Mapping[str, Any]]
TITLES = {
    "W_QK_F": r"$\|W_{QK}\|_F$",
    "ratio_to_random": "ratio to random start",
    "stable_rank": "stable rank of $W_{QK}$",
    "W_VO_2": r"$\|W_{VO}\|_2$",
    "score_radius": "score radius",
    "capacity_share": "capacity share",
    "n95": "n95, longer contexts",
    "n95_exponent": "exponent of n95(T)",
    "first_token_share": "share on the first token",
    "mean_distance": "mean distance",
    "effective_tokens": "effective tokens",
}
WIDE = 20.0  # from this ratio of largest to smallest on, colours are logarithmic


def available(rows: Rows) -> list[str]:
    """Quantities that every row has as a number, in the order of TITLES."""
    return [name for name in TITLES if all(row.get(name) is not None for row in rows)]


def grid_of(rows: Rows, name: str) -> np.ndarray:
    """[layers, heads]; parts of a model (encoder, decoder, cross) are stacked."""
    places = list(dict.fromkeys((row["part"], row["layer"]) for row in rows))
    heads = 1 + max(row["head"] for row in rows)
    grid = np.full((len(places), heads), np.nan)
    for row in rows:
        grid[places.index((row["part"], row["layer"])), row["head"]] = row[name]
    return grid


def draw_head_maps(rows: Rows, names: Sequence[str] | None = None, *, dark: bool = False) -> Figure:
    """One map per quantity; `names` defaults to all quantities in the rows."""
    chosen = list(names or available(rows))
    require(chosen, "rows", f"a quantity among {', '.join(TITLES)}", "rows without one")
    grids = [grid_of(rows, name) for name in chosen]
    columns = min(3, len(chosen))
    lines = -(-len(chosen) // columns)
    height = 0.9 + min(3.6, max(1.2, 0.11 * len(grids[0])))
    with styled(dark, formulas=True) as palette:
        figure = Figure(figsize=(2.75 * columns, height * lines), layout="constrained")
        for index, (name, grid) in enumerate(zip(chosen, grids, strict=True)):
            _panel(figure, (lines, columns, index + 1), name, grid, palette)
    return figure


def _panel(
    figure: Figure, place: tuple[int, int, int], name: str, grid: np.ndarray, palette: Palette
) -> None:
    axes = figure.add_subplot(*place)
    axes.grid(False)
    shades = LinearSegmentedColormap.from_list("heads", [palette.panel, palette.series[0]])
    mesh = axes.pcolormesh(grid, cmap=shades, norm=_norm(grid, name), linewidth=0)
    axes.invert_yaxis()
    axes.set_title(TITLES[name], fontsize=9, fontweight="normal")
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    for axis, count in ((axes.xaxis, grid.shape[1]), (axes.yaxis, grid.shape[0])):
        step = -(-count // 8)
        axis.set_ticks(np.arange(0, count, step) + 0.5, [str(i) for i in range(0, count, step)])
        axis.set_tick_params(length=0)
    bar = figure.colorbar(mesh, ax=axes, fraction=0.05, pad=0.03)
    bar.outline.set_visible(False)
    if isinstance(mesh.norm, LogNorm):
        ticks = np.geomspace(*mesh.get_clim(), 4)
        bar.set_ticks(ticks.tolist(), labels=[f"{tick:.2g}" for tick in ticks])
        bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=7, length=2)


def _norm(grid: np.ndarray, name: str) -> Normalize:
    low, high = float(np.nanmin(grid)), float(np.nanmax(grid))
    if name == "first_token_share":
        return Normalize(0.0, 1.0)
    if low > 0 and high / low >= WIDE:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + 1.0)
