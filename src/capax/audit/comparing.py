"""Comparison of two checkpoints: by summaries, and head by head where their shapes agree.

`larger_here` is the share of pairs (a head of the first checkpoint, a head of the second) in which
the first head's value is larger, ties counting half. A share of 1/2 means that the quantity does
not tell the two checkpoints apart.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from capax.audit.auditing import Audit

QUANTITIES = ("W_QK_F", "W_QK_2", "stable_rank", "W_VO_2", "W_VO_21", "score_radius")
WITH_TEXT = ("effective_tokens", "n95", "n95_exponent", "first_token_share", "mean_distance")


def compare(here: Audit, there: Audit) -> dict[str, Any]:
    """A summary of every quantity; `rows` of differences if both checkpoints have one shape."""
    names = [name for name in (*QUANTITIES, *WITH_TEXT) if _values(here, name)]
    summary = {
        name: _summary(_values(here, name), _values(there, name))
        for name in names
        if _values(there, name)
    }
    same = [_place(row) for row in here.rows] == [_place(row) for row in there.rows]
    rows = (
        [_difference(a, b, names) for a, b in zip(here.rows, there.rows, strict=True)]
        if same
        else []
    )
    return {"against": there.path, "family": there.facts.family, "same_shape": same,
            "summary": summary, "rows": rows}  # fmt: skip


def against_random(here: Audit) -> dict[str, Any]:
    """The same comparison with the random initialisation, which has one number per quantity."""
    rows, summary = [], {}
    for row in here.rows:
        base = {name: _base(row, name) for name in QUANTITIES}
        rows.append(_difference(row, {**row, **base}, list(QUANTITIES)))
    for name in QUANTITIES:
        there = [value for row in here.rows if (value := _base(row, name)) is not None]
        if there:
            summary[name] = _summary(_values(here, name), there)
    return {"against": f"random: {here.random_start}", "family": here.facts.family,
            "same_shape": True, "summary": summary, "rows": rows}  # fmt: skip


def _base(row: dict[str, Any], name: str) -> float | None:
    ratio, value = row.get(f"{name}_to_random"), row.get(name)
    return value / ratio if ratio and value is not None else None


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["part"], row["layer"], row["head"]


def _values(audit: Audit, name: str) -> list[float]:
    return [row[name] for row in audit.rows if row.get(name) is not None]


def _summary(here: Sequence[float], there: Sequence[float]) -> dict[str, float]:
    return {
        "median_here": median(here),
        "median_there": median(there),
        "larger_here": larger_share(here, there),
    }


def larger_share(here: Sequence[float], there: Sequence[float]) -> float:
    """P(a > b) + P(a = b)/2 over all pairs."""
    a, b = np.asarray(here)[:, None], np.asarray(there)[None, :]
    return float((a > b).mean() + 0.5 * (a == b).mean())


def _difference(a: dict[str, Any], b: dict[str, Any], names: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"part": a["part"], "layer": a["layer"], "head": a["head"]}
    for name in names:
        x, y = a.get(name), b.get(name)
        row[name] = x - y if x is not None and y is not None else None
        row[f"{name}_ratio"] = x / y if x is not None and y else None
    return row
