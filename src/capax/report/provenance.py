"""From a number to its runs: links, the table of runs, the settings, the machine.

Runs of one store share most of their spec. The page has the shared part once and, for each run,
only the fields that vary; together they give the full spec.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from capax.foreign import script_json
from capax.html import Markup, escaped, tag
from capax.report.page import Section
from capax.report.page_tables import facts, folded, paragraph, preformatted

COLUMNS = (
    "run_id",
    "trial_id",
    "panel",
    "T",
    "m",
    "restart",
    "outcome",
    "solved_step",
    "validation_accuracy",
    "seconds",
    "reason",
    "changes",
)


@dataclass(frozen=True)
class RunRow:
    """One row of the table of runs; `spec` is the full spec as nested plain data."""

    run_id: str
    trial_id: str
    T: int
    m: int | None
    restart: int
    outcome: str
    solved_step: int | None
    validation_accuracy: float | None
    seconds: float | None
    reason: str | None
    spec: Mapping[str, Any]
    panel: str = ""


@dataclass(frozen=True)
class StoreRecord:
    """A store: its name, its settings, machine and versions, and the runs that are shown.

    num_runs: number of runs of the store; 0 if all of them are shown.
    """

    name: str
    experiment: str
    facts: Mapping[str, object]
    runs: tuple[RunRow, ...]
    num_runs: int = 0

    @property
    def total(self) -> int:
        """Runs of the store, shown or not."""
        return max(self.num_runs, len(self.runs))


def trace_link(text: str, target: Mapping[str, object]) -> Markup:
    """A link that filters the table of runs by `target`."""
    runs = escape(script_json(target))  # whole: the page's script reads it
    return Markup(f'<a href="#runs" data-trace="{runs}">{escaped(text)}</a>')


def store_payload(record: StoreRecord) -> dict[str, Any]:
    """The runs of a store as compact columns for `assets/runs.js`."""
    flat = [flattened(run.spec) for run in record.runs]
    common, varying = shared_fields(flat)
    rows = [
        [*(getattr(run, column) for column in COLUMNS[:-1]), [fields.get(k) for k in varying]]
        for run, fields in zip(record.runs, flat, strict=True)
    ]
    nested = nested_fields(common)
    return {
        "name": record.name,
        "columns": COLUMNS,
        "rows": rows,
        "common": nested,
        "varying": varying,
    }


def flattened(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"task": {"T": 5}} as {"task.T": 5}."""
    flat: dict[str, Any] = {}
    for name, value in spec.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def nested_fields(flat: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `flattened`."""
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *folders, name = path.split(".")
        target = nested
        for folder in folders:
            target = target.setdefault(folder, {})
        target[name] = value
    return nested


def shared_fields(specs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The fields that are equal in all specs, and the sorted names of the other fields."""
    names = sorted(set().union(*specs))
    missing = object()
    first = specs[0] if specs else {}
    common = {
        name: first[name]
        for name in names
        if name in first and all(spec.get(name, missing) == first[name] for spec in specs)
    }
    return common, [name for name in names if name not in common]


def settings_section(records: Sequence[StoreRecord]) -> Section:
    """Settings, machine and versions of every store."""
    parts = []
    for record in records:
        parts.append(tag("h3", escaped(record.name)) + facts(record.facts))
        parts.append(folded("the experiment file", preformatted(record.experiment)))
    return Section("settings", "Settings", "Experiments, machines, versions", "".join(parts))


def runs_section(records: Sequence[StoreRecord]) -> Section:
    """The table of runs; `assets/runs.js` fills and filters it."""
    total, shown = (sum(n) for n in zip(*((r.total, len(r.runs)) for r in records), strict=True))
    which = (
        f"All {total} runs."
        if shown == total
        else (
            f"{shown} of {total} runs: the first trials at every T and m; `capax export` has all."
        )
    )
    selects = "".join(_select(field) for field in ("store", "panel", "T", "m", "outcome"))
    headers = ("run", "T", "m", "trial", "restart", "outcome", "solved at", "validation", "seconds")
    kinds = (
        "",
        *2 * ("number",),
        "wide",
        "number wide",
        "",
        "number wide",
        "number",
        "number wide",
    )
    head = "".join(tag("th", escaped(h), k) for h, k in zip(headers, kinds, strict=True))
    html = (
        paragraph(
            f"{which} Every threshold and curve above links to its runs; click a run for its spec."
        )
        + f'<div class="filters">{selects}<label>id <input type="search" data-filter="text" '
        + 'placeholder="run or trial" size="12"></label></div>'
        + '<div class="pages"><p class="count"></p>'
        + "".join(_button(page, text) for page, text in _BUTTONS)
        + "</div>"
        + tag("div", tag("table", tag("thead", tag("tr", head)) + "<tbody></tbody>"), "scroll")
    )
    return Section("runs", "Runs", "All runs", html)


_BUTTONS = (("all", "all runs"), ("back", "back"), ("next", "next"))


def _select(field: str) -> str:
    options = '<option value="">all</option>'
    return f'<label>{field} <select data-filter="{field}">{options}</select></label>'


def _button(page: str, text: str) -> str:
    return f'<button type="button" data-page="{page}">{text}</button>'
