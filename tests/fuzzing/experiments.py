"""Experiment files: the shipped ones with fields of the wrong kind, too deep, too large."""

import datetime
import json
import math
from random import Random
from typing import Any

from fuzzing import hostile, samples
from fuzzing.case import Case


def case(random: Random) -> Case:
    """`capax sweep` on a bent file."""
    tree = json.loads(random.choice(list(samples.experiments().values())))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        tree = hostile.bent(random, tree, moments=True)
    content = _file(tree if isinstance(tree, dict) else {"T": tree})
    if random.random() < 0.15:
        content = hostile.scrambled(random, content)
    if random.random() < 0.03:
        content += b"\nz = " + random.choice((b"[" * 5000, b"9" * 5000, b"{a=" * 3000, b"1e99999"))
    scale = random.choice(((), (), (), ("--scale", "paper"), ("--scale", hostile.text(random))))
    argv = ("sweep", "x.toml", "--store", "x.sqlite", *scale)
    return Case("experiment", argv, {"x.toml": content}, kept=("x.toml",))


def _file(tree: dict[str, Any]) -> bytes:
    lines = (f"{_text(str(name))} = {_value(value)}\n" for name, value in tree.items())
    return "".join(lines).encode("utf-8", errors="surrogateescape")


def _value(value: Any) -> str:
    """TOML for plain data; what TOML has no word for is written as a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f"{_text(str(name))} = {_value(part)}" for name, part in value.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float):
        return "nan" if math.isnan(value) else "inf" if value == math.inf else (
            "-inf" if value == -math.inf else repr(value))  # fmt: skip
    if isinstance(value, int):
        return str(value)
    return _text(str(value))


def _text(text: str) -> str:
    parts = (c if (c.isprintable() and c not in '"\\') or ord(c) > 0xD7FF else f"\\u{ord(c):04x}"
             for c in text)  # fmt: skip
    return '"' + "".join(parts) + '"'
