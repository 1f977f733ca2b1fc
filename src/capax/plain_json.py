"""Results as JSON: the same text on the command line, in the lab and in files of results.

JSON has no infinity and no NaN: such numbers become null. NumPy and JAX values become plain ones.
"""

import json
import math
from dataclasses import asdict
from typing import Any, cast


def json_text(payload: Any, *, indent: int | None = None) -> str:
    """`payload` as JSON."""
    return json.dumps(finite_json(payload), indent=indent, allow_nan=False, default=plain)


class PlainRecord:
    """Base of dataclasses that are plain data."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, tuples as lists."""
        fields = asdict(cast(Any, self)).items()
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields}


def finite_json(payload: Any) -> Any:
    """`payload` with numbers that JSON does not have as None."""
    if isinstance(payload, float):
        return payload if math.isfinite(payload) else None
    if isinstance(payload, dict):
        return {key: finite_json(value) for key, value in payload.items()}
    if isinstance(payload, list | tuple):
        return [finite_json(value) for value in payload]
    return finite_json(plain(payload)) if hasattr(payload, "tolist") else payload


def plain(value: Any) -> Any:
    """NumPy and JAX scalars and arrays as plain Python; sets sorted; paths as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
