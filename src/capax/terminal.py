"""The terminal: one way to print, in which text from files is text and nothing else.

Square brackets in a name would be read as styles, a closing one would raise. A `Terminal` reads no
markup and shows what cannot be printed by its code, so no caller has to remember it: styles are
given by `style=`, never inside the text.
"""

from typing import Any

from rich.console import Console
from rich.text import Text

from capax.foreign import printable


class Terminal(Console):
    """A Rich console without markup, emoji codes, highlighting and control characters."""

    def __init__(self, *, stderr: bool = False, **settings: Any) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Every string that Rich draws passes here: lines, cells, titles."""
        return super().render_str(printable(text), **settings)
