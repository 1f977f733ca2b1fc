"""Figures 2, 3 and 4 of the paper from a store, each with the numbers in the picture."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from capax.errors import InputError
from capax.figures.attention_weights import AttentionMap, draw_attention_weights
from capax.figures.curves_and_attention import draw_curves_and_attention
from capax.figures.learning_curves import draw_learning_curves
from capax.figures.parity_transition import draw_parity_transition
from capax.figures.stored_attention import attention_maps
from capax.figures.stored_curves import learning_curves, parity_transition
from capax.figures.stored_runs import panels_of
from capax.figures.stored_thresholds import threshold_scaling
from capax.figures.threshold_scaling import draw_threshold_scaling
from capax.sweep.store import Store

Numbers = dict[str, Any]


def figure_2(store: Path | None, dark: bool) -> tuple[Figure, Numbers]:
    """Thresholds against T."""
    with _opened(store) as opened:
        data = threshold_scaling(opened)
    return draw_threshold_scaling(data, dark=dark), asdict(data)


def figure_3(store: Path | None, dark: bool) -> tuple[Figure, Numbers]:
    """Learning curves and attention weights; one of the two where the store has only one."""
    with _opened(store) as opened:
        maps = attention_maps(opened) if panels_of(opened, "attention") else ()
        if maps and not panels_of(opened, "curves"):
            return draw_attention_weights(maps, dark=dark), _attention_numbers(maps)
        curves = learning_curves(opened)
    if not maps:
        return draw_learning_curves(curves, dark=dark), {"curves": asdict(curves)}
    figure = draw_curves_and_attention(curves, maps, dark=dark)
    return figure, {"curves": asdict(curves), **_attention_numbers(maps)}


def figure_4(store: Path | None, dark: bool) -> tuple[Figure, Numbers]:
    """Parity: the phase transition."""
    with _opened(store) as opened:
        data = parity_transition(opened)
    return draw_parity_transition(data, dark=dark), asdict(data)


def _attention_numbers(maps: tuple[AttentionMap, ...]) -> Numbers:
    return {"attention": [asdict(attention) for attention in maps]}


def _opened(store: Path | None) -> Store:
    if store is None:
        raise InputError("--store: wanted a store made by `capax sweep`, got none")
    return Store.read(store)
