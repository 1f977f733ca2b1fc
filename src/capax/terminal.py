"""The terminal: one way to print, in which text from files is text and nothing else.

Square brackets in a name would be read as styles, a closing one would raise. A `Terminal` reads no
markup and shows what cannot be printed by its code, so no caller has to remember it: styles are
given by `style=`, never inside the text. Where it is narrow, words are folded, never cut.
"""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from capax.foreign import printable


class Terminal(Console):
    """A Rich console without markup, emoji codes, highlighting and control characters."""

    def __init__(self, *, stderr: bool = False, **settings: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Every string that Rich draws passes here: lines, cells, titles."""
        return super().render_str(printable(text), **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Everything else passes here: texts that came with a style, bars, tables."""
        if isinstance(renderable, Text) and not renderable.plain.isprintable():
            renderable = renderable.copy()
            renderable.plain = printable(renderable.plain)
        if isinstance(renderable, Table):
            for column in renderable.columns:
                if not column.no_wrap:
                    column.overflow = "fold"
        return super().render(renderable, options)
