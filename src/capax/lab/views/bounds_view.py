"""The view Bounds: norms, T, m, margin and delta; every route, and its first useful m."""

import math
import shlex
from typing import Any

from pydantic import Field

from capax.data.spec_base import Spec
from capax.errors import InputError, require

POINTS = 49
LARGEST_M = 10**12
MAX_HEADS = 4096
NEARLY_ONE = 0.999
"""The error bound that the search for the first useful m asks for: a number below 1."""


class BoundsQuestion(Spec):
    """Norms of one head and its read-out (or of `layers` layers), sizes and probabilities."""

    W_QK: float = Field(default=2.0, gt=0, le=1e6, allow_inf_nan=False)
    v: float = Field(default=1.0, gt=0, le=1e6, allow_inf_nan=False)
    T: int = Field(default=1000, ge=1, le=10**9)
    m: int = Field(default=100_000, ge=1, le=LARGEST_M)
    d: int = Field(default=64, ge=1, le=10**6)
    margin: float = Field(default=0.5, gt=0, le=1e6, allow_inf_nan=False)
    delta: float = Field(default=0.05, gt=0, lt=1)
    target: float = Field(default=0.1, gt=0, lt=1)

    @property
    def norms(self) -> str:
        """The norms as `capax bound --norms` reads them."""
        return f"W_QK={self.W_QK!r},v={self.v!r}"

    @property
    def command(self) -> str:
        """The command with the same numbers."""
        words = ["capax", "bound", "--norms", self.norms]
        for name in ("T", "m", "d"):
            words += [f"-{name}", str(getattr(self, name))]
        for name in ("margin", "delta", "target"):
            words += [f"--{name}", repr(getattr(self, name))]
        return shlex.join([*words, "--json"])


def bounds_answer(question: BoundsQuestion) -> dict[str, Any]:
    """The answer of `capax bound --json`, the routes as curves over m, and their first useful m."""
    from capax.capacity.routes.bounding import bound, bound_from_text

    sizes = {"T": question.T, "m": question.m, "d": question.d}
    goal = {"margin": question.margin, "delta": question.delta}
    answer, extra = bound_from_text(question.norms, target=question.target, **sizes, **goal)
    payload = {**answer.to_json(), **extra, "target": question.target}
    useful: Any = bound(question.norms, **sizes, **goal, target=NEARLY_ONE)
    curves: dict[str, dict[str, list[Any]]] = {}
    for m in _sizes():
        entries: Any = bound(question.norms, **{**sizes, "m": m}, **goal, target=None)
        for entry in entries.entries:
            curve = curves.setdefault(entry.statement, {"m": [], "log10": []})
            curve["m"].append(m)
            curve["log10"].append(entry.log_value / math.log(10))
    return {
        "bound": payload,
        "curves": [{"statement": name, **curve} for name, curve in curves.items()],
        "useful_from": {e.statement: e.m_needed for e in useful.entries},
        "command": question.command,
    }


def _sizes() -> list[int]:
    steps = range(POINTS)
    return sorted({round(10 ** (1 + 11 * k / (POINTS - 1))) for k in steps})


def audited_norms(content: bytes, name: str) -> dict[str, Any]:
    """The norms of the heads in a file that `capax audit --json` wrote.

    Raises `InputError` for a file without heads.
    """
    from capax.reading import parse_json

    try:
        data = parse_json(content.decode("utf-8-sig"), name)
    except UnicodeDecodeError:
        raise InputError(f"{name}: not the output of capax audit --json") from None
    rows: Any = data.get("rows") if isinstance(data, dict) else None
    require(isinstance(rows, list), name, "the output of capax audit --json", "no rows of heads")
    heads = [
        {"name": f"layer {row.get('layer')}, head {row.get('head')}", "W_QK": row["W_QK_F"]}
        for row in rows[:MAX_HEADS]
        if isinstance(row, dict) and _is_norm(row.get("W_QK_F"))
    ]
    require(heads, name, "heads with a norm of W_QK", "no such head")
    return {"heads": heads}


def _is_norm(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e6
