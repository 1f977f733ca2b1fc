"""One style for every picture: fonts, colours, light and dark, and files written atomically.

Draw inside `with styled(dark) as palette:` on a `matplotlib.figure.Figure` (never pyplot: no
global state, no display), then `save(figure, "x.png")`; the suffix chooses PNG, SVG or PDF.

Names come from files: a dollar sign in them is a dollar sign. Only a figure drawn inside
`styled(dark, formulas=True)` reads `$..$` as mathematics. Invisible characters are written as their
codes in every file that is made from a figure (`plain_texts`).

People with common colour blindnesses can tell the series colours apart (after Okabe and Ito), and
each colour has enough contrast with its background for text.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cycler import cycler
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text

from capax.errors import require
from capax.files import check_writable, write_atomically
from capax.foreign import printable

FORMATS = ("png", "svg", "pdf")
DOTS_PER_INCH = 200
FONT_DATES = logging.getLogger("fontTools.ttLib.tables._h_e_a_d")


@dataclass(frozen=True)
class Palette:
    """Colours by role: paper, text, secondary text, hairlines, raised surfaces, and the data."""

    background: str
    ink: str
    muted: str
    line: str
    panel: str
    series: tuple[str, ...]


LIGHT = Palette(
    background="#ffffff",
    ink="#1f2328",
    muted="#6a737d",
    line="#e1e4e8",
    panel="#f5f7f9",
    series=("#0b62a8", "#c2500a", "#0a7d5c", "#a3387f", "#8a6d00", "#5b4bc4"),
)
DARK = Palette(
    background="#14171c",
    ink="#e8eaed",
    muted="#949ca7",
    line="#2c323b",
    panel="#1c2027",
    series=("#63b0f4", "#f59a55", "#3fc79c", "#e386c2", "#dcbb4d", "#a89bff"),
)


def palette_for(dark: bool) -> Palette:
    """The palette of the theme."""
    return DARK if dark else LIGHT


@contextmanager
def styled(dark: bool = False, *, formulas: bool = False) -> Iterator[Palette]:
    """Matplotlib settings of the theme inside the block; yields its palette.

    formulas: all texts of this figure are ours and may contain mathematics (also the ticks of
    logarithmic axes, unless they are formatted otherwise).
    """
    palette = palette_for(dark)
    with rc_context({**_settings(palette), "text.parse_math": formulas}):
        yield palette


def plain_texts(figure: Figure) -> Figure:
    """`figure` with every text in it printable."""
    for text in figure.findobj(Text):
        shown = text.get_text()
        if not shown.isprintable():
            text.set_text(printable(shown))
    return figure


def check_destination(path: Path | str) -> str:
    """The format by the suffix of `path`; `InputError` if such a file could not be written."""
    kind = Path(path).suffix.lower().removeprefix(".")
    require(kind in FORMATS, "out", "a file name ending in .png, .svg or .pdf", str(path))
    check_writable(path)
    return kind


def save(figure: Figure, path: Path | str) -> Path:
    """Write `figure` as PNG, SVG or PDF by the suffix of `path`, whole or not at all.

    The same figure gives the same bytes: no date is written into the file.
    """
    kind = check_destination(path)
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    options: dict[str, Any] = {"format": kind, "metadata": metadata[kind], "dpi": DOTS_PER_INCH}

    def write(file: Any) -> None:
        settings = {"svg.hashsalt": "capax", "svg.fonttype": "path", "pdf.fonttype": 42}
        with rc_context(settings), _quiet(FONT_DATES), no_glyph_warnings():
            plain_texts(figure).savefig(file, facecolor=figure.get_facecolor(), **options)

    return write_atomically(path, write)


@contextmanager
def no_glyph_warnings() -> Iterator[None]:
    """No warnings about characters that are missing in our font; they are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """No log warnings inside the block, about the date 1904 in Matplotlib's mathematical fonts."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _settings(palette: Palette) -> dict[str, Any]:
    return {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # ships with Matplotlib: the same on every machine
        "mathtext.fontset": "cm",
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 9,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "figure.facecolor": palette.background,
        "savefig.facecolor": palette.background,
        "axes.facecolor": palette.background,
        "text.color": palette.ink,
        "axes.titlecolor": palette.ink,
        "axes.labelcolor": palette.ink,
        "axes.edgecolor": palette.muted,
        "xtick.color": palette.muted,
        "ytick.color": palette.muted,
        "xtick.labelcolor": palette.ink,
        "ytick.labelcolor": palette.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": palette.line,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.6,
        "lines.solid_capstyle": "round",
        "axes.prop_cycle": cycler(color=palette.series),
    }
