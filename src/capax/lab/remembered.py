"""Port and token of the last server, so that open pages continue when the server restarts."""

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from capax.errors import InputError
from capax.reading import parse_json, read_text


class Remembered(NamedTuple):
    """The port of the last server (0: none), and the token of its pages."""

    port: int
    token: str


def state_file() -> Path:
    """The file in which this user's port and token are kept."""
    from platformdirs import user_state_path

    return user_state_path("capax", appauthor=False) / "lab.json"


def remembered(path: Path | None = None) -> Remembered:
    """Port and token of the last server; without them, a free port and a new token."""
    with suppress(InputError, OSError, RuntimeError):
        data = parse_json(read_text(path or state_file(), 4096), "lab.json")
        port, token = (data.get("port"), data.get("token")) if isinstance(data, dict) else (0, "")
        plain = isinstance(token, str) and token.isascii() and len(token) >= 32
        if plain and isinstance(port, int) and 0 <= port < 65536 and _is_word(token):
            return Remembered(port, token)
    return Remembered(0, secrets.token_urlsafe(24))


def remember(port: int, token: str, path: Path | None = None) -> None:
    """Keep both for the next server, readable only by this user; without a home do nothing."""
    with suppress(OSError, RuntimeError):
        file = path or state_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            json.dump({"port": port, "token": token}, opened)
        file.chmod(0o600)


def _is_word(token: str) -> bool:
    return all(c.isalnum() or c in "-_" for c in token)
