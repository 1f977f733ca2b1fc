"""`capax figure N`: a figure of the paper, drawn from our own results."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from capax.cli.speaking.output import JsonFlag, emit
from capax.cli.speaking.shared_options import DarkFlag
from capax.errors import require


@dataclass(frozen=True)
class PaperFigure:
    """The content of a figure, and `module:function` of
    `(stores, dark, panel) -> (figure, its numbers)`."""

    title: str
    maker: str


# number in the paper -> how it is made
FIGURES: dict[int, PaperFigure] = {
    1: PaperFigure(
        "attention modules: head with context, self-attention layer, [CLS] scalar",
        "capax.figures.heads.attention_diagram:figure_1",
    ),
    2: PaperFigure(
        "examples needed against the context length T, with intervals, laws and floor",
        "capax.figures.paper.from_stores:figure_2",
    ),
    3: PaperFigure(
        "learning curves above and below the threshold; attention of trained models",
        "capax.figures.paper.from_stores:figure_3",
    ),
    4: PaperFigure(
        "parities: loss, accuracy and attention on the secret bits, seed by seed",
        "capax.figures.paper.from_stores:figure_4",
    ),
}


def figure(
    number: Annotated[int, typer.Argument(help="Number of the figure in the paper.")],
    out: Annotated[Path, typer.Option(help="File to write: .png, .svg or .pdf.")],
    store: Annotated[
        list[Path] | None,
        typer.Option(
            help="Store or name of a reference; for Figure 2 again for every further curve."
        ),
    ] = None,
    panel: Annotated[
        str | None, typer.Option(help="Figure 2: only the panels of this name.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(help="Figure 1: your own formula on 0-based positions.")
    ] = None,
    bits: Annotated[
        str | None, typer.Option(help="Figure 1: the input it is drawn on, such as 101101.")
    ] = None,
    T: Annotated[int | None, typer.Option("-T", help="Figure 1: length of the input.")] = None,
    dark: DarkFlag = False,
    json: JsonFlag = False,
) -> None:
    """Draw a figure of the paper.

    Figure 1 is drawn from actual modules on actual bits: the darkness of an edge is a computed
    attention weight; --function compiles your own formula into its [CLS] panel. Figures 2 to 4 are
    drawn from a store, by default from the results that come with the package (`capax
    reference`). With --json the numbers in the picture are printed.

    Example: `capax figure 1 --function "maj(x0,x2,x5)" --bits 101101 --out fig1.png`
    """
    _check_figure(number, store)
    from capax.figures.style import check_destination, save

    check_destination(out)
    module, _, maker = FIGURES[number].maker.partition(":")
    make = getattr(importlib.import_module(module), maker)
    own = {"function": function, "bits": bits, "T": T}
    own = {name: value for name, value in own.items() if value is not None}
    if number == 1:
        picture, numbers = make(**own, dark=dark)
    else:
        require(
            not own, next(iter(own), ""), "Figure 1 (other figures are drawn from a store)", number
        )
        picture, numbers = make(store or [], dark, panel)
    written = save(picture, out)
    payload = {
        "figure": number,
        "title": FIGURES[number].title,
        "out": str(written),
        "data": numbers,
    }
    text = f"Figure {number} ({payload['title']}) written to {written}"
    emit(payload, json, lambda console: console.print(text))


def _check_figure(number: int, store: list[Path] | None) -> None:
    """Raise `InputError` for an unknown figure or a store that is missing or not used."""
    from capax.reading import existing_store

    known = ", ".join(map(str, sorted(FIGURES)))
    require(number in FIGURES, "number", f"a figure among {known}", number)
    given = [str(path) for path in store or ()]
    require(number != 1 or not given, "store", "no store: Figure 1 needs no results", given)
    for path in given:
        existing_store(path)


def register(app: typer.Typer) -> None:
    """Add `figure` to the command line."""
    app.command("figure", epilog="Example: `capax figure 1 --out fig1.png`")(figure)
