"""Parts of pages: tables, paragraphs, collapsible parts; foreign text is escaped."""

from collections.abc import Iterable, Mapping, Sequence

from capax.html import escaped, html_table, tag


def table(
    headers: Sequence[str], align: str, rows: Iterable[Sequence[object]], *, chosen: int = -1
) -> str:
    """A table. `align` has one letter per column, `r` for numbers; row `chosen` is emphasised."""
    made = html_table(rows, head=headers, align=align, chosen=chosen, on_page=True)
    return tag("div", made, "scroll")


def facts(pairs: Mapping[str, object]) -> str:
    """A two-column table of names and values."""
    return tag("div", html_table(pairs.items(), on_page=True), "scroll")


def paragraph(text: object, kind: str = "") -> str:
    """A paragraph, of a CSS class if `kind` is given."""
    return tag("p", escaped(text), kind)


def folded(summary: str, content: str, *, kind: str = "", unfolded: bool = False) -> str:
    """A collapsible part; `content` is HTML."""
    attributes = (f' class="{kind}"' if kind else "") + (" open" if unfolded else "")
    return f"<details{attributes}>{tag('summary', escaped(summary))}{content}</details>"


def preformatted(text: str) -> str:
    """Text in a fixed-width block."""
    return tag("pre", escaped(text))
