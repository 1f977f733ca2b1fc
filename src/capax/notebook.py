"""How objects show themselves in a notebook: small HTML tables, with every text escaped.

An object says what it holds as rows; the same rows make the page. Colours follow the notebook's
theme (only `currentColor` and transparency are used), and nothing is loaded from anywhere.
"""

from collections.abc import Iterable, Sequence

from capax.foreign import html_text, printable

_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.4em 0"
_CELL = "text-align:left;padding:.15em .9em .15em 0;border:0;background:none;vertical-align:top"
_HEAD = _CELL + ";font-weight:600;border-bottom:1px solid currentColor"
_NOTE = "opacity:.7;font-size:90%"


def html_table(
    rows: Iterable[Sequence[object]],
    *,
    head: Sequence[object] = (),
    title: str = "",
    notes: Iterable[str] = (),
) -> str:
    """A table with a bold first column where it has no head; `notes` stand below it, dimmed."""
    body = "".join(_row(row, first_bold=not head) for row in rows)
    top = "".join(f'<th style="{_HEAD}">{html_text(name)}</th>' for name in head)
    heading = f"<div><b>{html_text(title)}</b></div>" if title else ""
    below = "".join(f'<div style="{_NOTE}">{html_text(note)}</div>' for note in notes)
    thead = f"<thead><tr>{top}</tr></thead>" if head else ""
    return f'{heading}<table style="{_TABLE}">{thead}<tbody>{body}</tbody></table>{below}'


def _row(cells: Sequence[object], first_bold: bool) -> str:
    parts = [
        f'<td style="{_CELL}{";font-weight:600" if first_bold and i == 0 else ""}">'
        f"{html_text(cell)}</td>"
        for i, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(parts)}</tr>"


def latex_text(text: str) -> str:
    r"""`text` inside a LaTeX formula, as `\text{...}` with every command character escaped."""
    special = {
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"{<}",
        **{c: f"\\{c}" for c in "&%$#_{}"},
    }
    return rf"\text{{{''.join(special.get(c, c) for c in printable(text))}}}"
