"""Foreign text: names, formulas and metadata from files of unknown origin.

Escape sequences would move the cursor, line separators and right-to-left marks would rearrange a
line, and HTML tags would run. Text of unknown origin is shown through this file only: `printable`
for terminals and pictures, `html_text` and `script_json` for pages, `latex_text` for formulas.
`capax.terminal`, `capax.errors`, `capax.html` and `capax.figures.style` do so for all their text.
"""

import json
import unicodedata
from html import escape
from typing import Any

LONGEST = 5000  # characters of one text in a table, on a page or in a message


def printable(text: str) -> str:
    r"""`text` with every invisible character written as its code; \n and \t stay."""
    return text if text.isprintable() else "".join(map(_seen, text))


def shortened(text: str, limit: int = LONGEST) -> str:
    """`text`, or the beginning and the length of a long text."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def one_line(text: str, limit: int = 80) -> str:
    """`text` in one printable line of at most `limit` characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def html_text(value: object) -> str:
    """Any `value` as text of an HTML page, in an element or in an attribute."""
    return escape(printable(shortened(str(value))))


def latex_text(text: str) -> str:
    r"""`text` inside a LaTeX formula, as `\text{...}` with every command character escaped."""
    return rf"\text{{{latex_words(text)}}}"


def latex_words(text: str) -> str:
    """`text` between the words of a LaTeX document, with every command character escaped."""
    special = {
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"{<}",
        **{c: f"\\{c}" for c in "&%$#_{}"},
    }
    return "".join(special.get(c, c) for c in printable(text))


def script_json(data: object) -> str:
    """JSON of printable strings that may stand inside a <script> element or an attribute."""
    text = json.dumps(printable_parts(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def printable_parts(data: Any) -> Any:
    """`data`, made of lists and dictionaries, with every string in it printable and shortened."""
    if isinstance(data, str):
        return printable(shortened(data))
    if isinstance(data, dict):
        return {printable_parts(key): printable_parts(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [printable_parts(value) for value in data]
    return data


def _seen(character: str) -> str:
    if character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs":
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{{{number:x}}}"
