"""Thresholds as a table for a spreadsheet or a paper: one row for each curve and T."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from capax.foreign import latex_words

COLUMNS = (
    *("curve", "T", "m_star", "low", "high", "status", "floor", "floor_is_reference", "ratio"),
    "trials",
)


def threshold_rows(curves: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of curves given as plain data (`ThresholdCurve.to_json`).

    `floor` is the m of the best learner; `floor_is_reference`: the trials redraw ambiguous samples,
    so that it is not a floor for them.
    """
    rows = []
    for curve in curves:
        for row in curve["thresholds"]:
            best = row["floor"] or {}
            fields = {
                **row,
                "curve": curve["name"] or curve["store"],
                "floor": best.get("m"),
                "floor_is_reference": None if not best else not best["is_floor"],
            }
            rows.append({name: fields[name] for name in COLUMNS})
    return rows


def as_csv(curves: Sequence[dict[str, Any]]) -> str:
    """Comma-separated, with a head; unknown values are empty cells."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(threshold_rows(curves))
    return text.getvalue()


def as_latex(curves: Sequence[dict[str, Any]]) -> str:
    """A `tabular` with rules of booktabs; the verdict of every curve as a comment below."""
    rows = threshold_rows(curves)
    several = len({row["curve"] for row in rows}) > 1
    head = [*(["curve"] if several else []), "$T$", "$m^*$", "95\\,\\% interval", "best learner"]
    lines = [
        rf"\begin{{tabular}}{{{'l' if several else ''}rrcrr}}",
        r"\toprule",
        rf"{' & '.join([*head, 'trials'])} \\",
        r"\midrule",
    ]
    for row in rows:
        closed = row["status"] == "closed"
        known = f"{row['low']}--{row['high']}" if closed else _cell(row["status"])
        cells = [_cell(row[name]) for name in (*(["curve"] if several else []), "T", "m_star")]
        cells += [known, _cell(row["floor"]), _cell(row["trials"])]
        lines.append(rf"{' & '.join(cells)} \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [f"% {curve['name'] or curve['store']}: {curve['verdict']}" for curve in curves]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    """A number as it is, text so that TeX prints it as it is."""
    if not isinstance(value, str):
        return "--" if value is None else str(value)
    for mark, written in (("<= ", r"$\le$ "), ("> ", "$>$ ")):
        if value.startswith(mark):
            return written + value[len(mark) :]
    return latex_words(value)
