"""Tables and short texts as HTML; everything that came from outside is escaped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capax.foreign import html_text


@dataclass(frozen=True)
class Markup:
    """HTML that we wrote ourselves and that must not be escaped again."""

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


def table(
    headers: Sequence[str], align: str, rows: Iterable[Sequence[object]], *, chosen: int = -1
) -> str:
    """A table. `align` has one letter per column, `r` for numbers; row `chosen` is emphasised."""
    kinds = ["number" if letter == "r" else "" for letter in align]
    head = "".join(tag("th", escaped(h), kind) for h, kind in zip(headers, kinds, strict=True))
    body = "".join(
        tag(
            "tr",
            "".join(tag("td", escaped(v), kind) for v, kind in zip(row, kinds, strict=True)),
            "chosen" if i == chosen else "",
        )
        for i, row in enumerate(rows)
    )
    parts = tag("thead", tag("tr", head)) + tag("tbody", body)
    return tag("div", tag("table", parts), "scroll")


def facts(pairs: Mapping[str, object]) -> str:
    """A two-column table of names and values."""
    rows = "".join(
        tag("tr", tag("td", tag("b", escaped(name))) + tag("td", escaped(value)))
        for name, value in pairs.items()
    )
    return tag("div", tag("table", tag("tbody", rows)), "scroll")


def paragraph(text: object, kind: str = "") -> str:
    """A paragraph, of a CSS class if `kind` is given."""
    return tag("p", escaped(text), kind)


def folded(summary: str, content: str, *, kind: str = "", unfolded: bool = False) -> str:
    """A part that the reader opens; `content` is HTML."""
    attributes = (f' class="{kind}"' if kind else "") + (" open" if unfolded else "")
    return f"<details{attributes}>{tag('summary', escaped(summary))}{content}</details>"


def preformatted(text: str) -> str:
    """Text in a fixed-width block."""
    return tag("pre", escaped(text))
