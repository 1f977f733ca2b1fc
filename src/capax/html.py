"""HTML: escaped text, elements, and the one table of notebooks and pages.

An object gives its content as rows; the same rows make its table in a notebook and on a page. A
page has a style sheet, so its table uses classes. A notebook has no style sheet, so there every
cell has an inline style. Colours follow the notebook's theme, and nothing is loaded.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from capax.foreign import html_text

_CELL = "text-align:left;padding:.15em .9em .15em 0;border:0;background:none;vertical-align:top"
_STYLES = {
    "table": "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4em 0",
    "": _CELL,
    "number": _CELL.replace("text-align:left", "text-align:right"),
    "name": f"{_CELL};font-weight:600",
    "head": f"{_CELL};font-weight:600;border-bottom:1px solid currentColor",
    "note": "opacity:.7;font-size:90%",
}


@dataclass(frozen=True)
class Markup:
    """HTML made by Capax, which must not be escaped again."""

    text: str


def escaped(content: object) -> str:
    """`content` as HTML text; `Markup` as it is, nothing for `None`."""
    if isinstance(content, Markup):
        return content.text
    return "" if content is None else html_text(content)


def tag(name: str, content: str, kind: str = "") -> str:
    """`<name class="kind">content</name>`; `content` is HTML."""
    opening = f'{name} class="{kind}"' if kind else name
    return f"<{opening}>{content}</{name}>"


def html_table(
    rows: Iterable[Sequence[object]],
    *,
    head: Sequence[object] = (),
    align: str = "",
    title: str = "",
    notes: Iterable[str] = (),
    chosen: int = -1,
    on_page: bool = False,
) -> str:
    """A table; without a `head` the first column is bold.

    `align` has a letter per column, `r` for numbers; the default is text. `notes` stand below the
    table, dimmed. Row `chosen` is emphasised. `on_page`: classes instead of inline styles.
    """
    element = tag if on_page else _styled
    numbers = ["number" if letter == "r" else "" for letter in align]
    heads = numbers or [""] * len(head) if on_page else ["head"] * len(head)
    top, body = _cells(element, "th", head, heads), ""
    for i, row in enumerate(rows):
        kinds = numbers or [""] * len(row)
        cells = _cells(element, "td", row, kinds if head else ["name", *kinds[1:]])
        body += tag("tr", cells, "chosen" if i == chosen else "")
    parts = (tag("thead", tag("tr", top)) if head else "") + tag("tbody", body)
    above = tag("div", tag("b", escaped(title))) if title else ""
    below = "".join(element("div", escaped(note), "note") for note in notes)
    return above + element("table", parts, "" if on_page else "table") + below


def _cells(
    element: Callable[[str, str, str], str], name: str, values: Sequence[object], kinds: list[str]
) -> str:
    pairs = zip(values, kinds, strict=True)
    return "".join(element(name, escaped(value), kind) for value, kind in pairs)


def _styled(name: str, content: str, kind: str) -> str:
    return f'<{name} style="{_STYLES[kind]}">{content}</{name}>'
