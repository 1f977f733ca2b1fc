"""Uploaded files, read by the same readers and with the same limits as in the commands."""

import tempfile
from pathlib import Path
from typing import Any

from capax.errors import InputError, require
from capax.foreign import one_line
from capax.sweep.storage.file import SQLITE


def read_upload(kind: str, content: bytes, name: str) -> dict[str, Any]:
    """The content of a file for its view: a card or a store, or an audit."""
    label = one_line(name, 80)
    if kind == "audit":
        from capax.lab.views.bounds_view import audited_norms

        return audited_norms(content, label)
    require(kind == "laws", "upload", "laws or audit", kind)
    return _store(content, label) if content.startswith(SQLITE) else _card(content, label)


def _store(content: bytes, label: str) -> dict[str, Any]:
    from capax.lab.views.laws_view import store_curves

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        path.write_bytes(content)
        try:
            curves = store_curves(path)
        except InputError as error:
            raise InputError(str(error).replace(str(path), label)) from None
    return {"kind": "store", "name": label, "curves": curves}


def _card(content: bytes, label: str) -> dict[str, Any]:
    """All rows of the card: the page chooses the target."""
    from dataclasses import asdict

    from capax.cards.answers.card_rows import from_json
    from capax.reading import parse_json

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        readable = "a card (capax card --json) nor a store (capax sweep)"
        raise InputError(f"{label}: neither {readable}") from None
    parse_json(text, label)  # its limits on depth and length
    card = from_json(text, label)
    for row in card.rows:
        numbers = (
            row.T,
            row.accuracy,
            *(n for n in (row.m_star, row.low, row.high) if n is not None),
        )
        plain = all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
        require(plain and isinstance(row.learner, str), label, "rows with numbers", row)
    rows = [{**asdict(row), "note": card.note(row)} for row in card.rows]
    return {"kind": "card", "name": label, "rows": rows, "laws": [asdict(w) for w in card.laws]}
