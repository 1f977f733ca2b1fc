"""Reference cards: measured once, on a GPU, and included in the package."""

import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from capax.cards.answers.card_rows import Card, from_json
from capax.errors import InputError
from capax.files import write_atomically

FILE = Path(str(files("capax") / "cards" / "answers" / "reference.json"))


@lru_cache(maxsize=1)
def reference_card() -> Card:
    """The card that comes with the package; empty if the package has none."""
    if not FILE.is_file():
        return Card((), ())
    return from_json(FILE.read_text(encoding="utf-8"), FILE.name)


def write_reference(card: Card, made: dict[str, str], path: Path = FILE) -> Path:
    """Write a card to the file of the package: rows, laws, curves, and its protocol."""
    if not card.rows:
        raise InputError("reference: no trial is finished yet")
    data = {**card.to_dict(), "protocol": {**card.protocol, **made}}
    del data["measured"]
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return write_atomically(path, lambda file: file.write(text.encode()))
