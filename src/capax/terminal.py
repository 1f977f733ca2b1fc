"""The terminal: lines and tables, in which text from files is never read as markup.

Square brackets in a name would be read as styles, and a closing one would raise. A `Terminal`
reads no markup and shows unprintable characters by their codes, so callers pass plain text and give
styles by `style=`. Where a width is known (a terminal, or COLUMNS is set) lines are folded between
words; a pipe or a file gets whole lines. Tables are printed by `Terminal.table` and nothing else.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from capax.foreign import printable, shortened

GAP = "  "  # between columns
NARROWEST = 8  # a column of text is folded to no less than this


class Terminal(Console):
    """A Rich console without markup, emoji codes, highlighting and control characters."""

    def __init__(self, *, stderr: bool = False, **settings: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print; text that goes to no screen is not folded. `soft_wrap=True` never folds it."""
        whole = not self.has_width and all(isinstance(each, str | Text) for each in objects)
        super().print(*objects, soft_wrap=settings.pop("soft_wrap", whole), **settings)

    @property
    def has_width(self) -> bool:
        """Whether lines have a known width."""
        return self.is_terminal or "COLUMNS" in os.environ

    def table(
        self,
        rows: Iterable[Sequence[object] | str],
        *,
        head: Sequence[str] = (),
        align: str = "",
        title: str = "",
        styles: Sequence[str] = (),
    ) -> None:
        """Print aligned columns; without a `head` the first column is bold.

        `align` has a letter per column, `r` for numbers; the default is text. Where a
        width is known, columns of text are folded to fit it; numbers are never cut or folded. A row
        that is a string is a line of its own. `styles` has one style per row, "" for none.
        """
        shown = [row if isinstance(row, str) else [*map(_cell, row)] for row in rows]
        cells = [row for row in ([*head], *shown) if row and not isinstance(row, str)]
        if title:
            self.print(title, style="bold")
        right = [letter == "r" for letter in align.ljust(max(map(len, cells), default=0))]
        widths = self._widths(cells, right)
        if head:
            self._row([*head], widths, right, "bold")
        for i, row in enumerate(shown):
            style = styles[i] if i < len(styles) else ""
            if isinstance(row, str):
                self.print(row, style=style)
            else:
                self._row(row, widths, right, style, first="" if head else "bold")

    def _widths(self, cells: list[list[str]], right: list[bool]) -> list[int]:
        """The widest cell of each column; text is narrowed until the line fits the terminal."""
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        text = [width for width, number in zip(widths, right, strict=True) if not number]
        room = self.width - (sum(widths) - sum(text)) - len(GAP) * (len(widths) - 1)
        widest = max(text, default=0)
        while self.has_width and widest > NARROWEST and sum(min(w, widest) for w in text) > room:
            widest -= 1
        return [w if number else min(w, widest) for w, number in zip(widths, right, strict=True)]

    def _row(
        self, cells: list[str], widths: list[int], right: list[bool], style: str, first: str = ""
    ) -> None:
        """One row, on as many lines as its longest folded cell needs."""
        folded = [
            [cell] if cell_len(cell) <= width else [line.plain.rstrip() for line in
                                                    Text(cell).wrap(self, width)]
            for cell, width in zip(cells, widths, strict=True)
        ]  # fmt: skip
        for i in range(max(map(len, folded))):
            line = Text(style=style)
            for j, (lines, width) in enumerate(zip(folded, widths, strict=True)):
                part = lines[i] if i < len(lines) else ""
                space = " " * (width - cell_len(part))
                line.append(GAP if j else "")
                line.append(space + part if right[j] else part + space, "" if j else first)
            line.rstrip()
            self.print(line, soft_wrap=True)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Every string that Rich draws passes here: lines and titles."""
        return super().render_str(printable(text), **settings)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Everything else passes here: texts that came with a style, and bars."""
        if isinstance(renderable, Text) and not renderable.plain.isprintable():
            renderable = renderable.copy()
            renderable.plain = printable(renderable.plain)
        return super().render(renderable, options)


def _cell(value: object) -> str:
    """One printable line; nothing for `None`."""
    return "" if value is None else printable(shortened(" ".join(str(value).splitlines())))
