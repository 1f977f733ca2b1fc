"""Figures 2, 3 and 4 of the paper from a store, each with the numbers in the picture."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from capax.analysis.reference.threshold_curves import threshold_curves
from capax.errors import InputError
from capax.figures.experiments.curves_and_attention import draw_curves_and_attention
from capax.figures.experiments.learning_curves import draw_learning_curves
from capax.figures.experiments.parity_transition import draw_parity_transition
from capax.figures.experiments.threshold_comparison import NamedCurve, draw_threshold_comparison
from capax.figures.experiments.threshold_scaling import draw_threshold_scaling
from capax.figures.heads.attention_weights import AttentionMap, draw_attention_weights
from capax.figures.stored.attention import attention_maps
from capax.figures.stored.curves import learning_curves, parity_transition
from capax.figures.stored.runs import panels_of
from capax.figures.stored.threshold_records import curve_scaling
from capax.sweep.storage.store import Store

Numbers = dict[str, Any]
Stores = Sequence[Path]
DEFAULTS = {2: Path("paper"), 3: Path("figure3"), 4: Path("figure4")}
"""The reference from which a figure is drawn if no store is given."""


def figure_2(stores: Stores, dark: bool, panel: str | None = None) -> tuple[Figure, Numbers]:
    """Thresholds against T; several stores or panels become named curves in one picture.

    Without a store the results in the package are drawn.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(_opened((store,))) for store in stores or (DEFAULTS[2],)]
        curves = threshold_curves(opened, panel)
    named = [NamedCurve(curve.name, curve_scaling(curve)) for curve in curves]
    if len(named) == 1:
        return draw_threshold_scaling(named[0].data, dark=dark), asdict(named[0].data)
    numbers = {"curves": [{"name": curve.name, **asdict(curve.data)} for curve in named]}
    return draw_threshold_comparison(named, dark=dark), numbers


def figure_3(stores: Stores, dark: bool, panel: str | None = None) -> tuple[Figure, Numbers]:
    """Learning curves and attention weights, or the one of them that the store has."""
    del panel
    with _opened(stores or (DEFAULTS[3],)) as opened:
        maps = attention_maps(opened) if panels_of(opened, "attention") else ()
        if maps and not panels_of(opened, "curves"):
            return draw_attention_weights(maps, dark=dark), _attention_numbers(maps)
        curves = learning_curves(opened)
    if not maps:
        return draw_learning_curves(curves, dark=dark), {"curves": asdict(curves)}
    figure = draw_curves_and_attention(curves, maps, dark=dark)
    return figure, {"curves": asdict(curves), **_attention_numbers(maps)}


def figure_4(stores: Stores, dark: bool, panel: str | None = None) -> tuple[Figure, Numbers]:
    """Parity: the phase transition."""
    del panel
    with _opened(stores or (DEFAULTS[4],)) as opened:
        data = parity_transition(opened)
    return draw_parity_transition(data, dark=dark), asdict(data)


def _attention_numbers(maps: tuple[AttentionMap, ...]) -> Numbers:
    return {"attention": [asdict(attention) for attention in maps]}


def _opened(stores: Stores) -> Store:
    if len(stores) > 1:
        raise InputError(f"--store: this figure takes one store, got {len(stores)}")
    return Store.read(stores[0])
