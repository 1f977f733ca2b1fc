"""What became of the mutants: tables by module and operator, and every survivor with its reason."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

HARMLESS = Path(__file__).with_name("harmless_mutants.json")
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
NOT_ENDED = "the tests did not end in time"

Outcomes = list[dict[str, Any]]


def harmless() -> dict[str, str]:
    """Reasons by key, of survivors that were read and found equivalent or harmless."""
    listed = json.loads(HARMLESS.read_text()) if HARMLESS.exists() else []
    return {entry["key"]: entry["reason"] for entry in listed}


def survived(said: dict[str, Any]) -> bool:
    """Whether no test noticed this mutant."""
    return said["outcome"] == "survived"


def tables(outcomes: Outcomes, modules: list[str]) -> str:
    """Two tables in Markdown, then the survivors: those with a reason, and the open ones."""
    reasons = harmless()
    by_module = [(m, [o for o in outcomes if _within(o, m)]) for m in modules]
    kinds = sorted({o["operator"] for o in outcomes})
    by_kind = [(k, [o for o in outcomes if o["operator"] == k]) for k in kinds]
    lost = sorted(filter(survived, outcomes), key=lambda o: o["name"])
    reasoned = [f"- `{_place(o)}`. {reasons[o['key']]}" for o in lost if o["key"] in reasons]
    unread = [f"- `{_place(o)}` [{o['key']}]" for o in lost if o["key"] not in reasons]
    parts = [_table("module", by_module, reasons), _table("fault", by_kind, reasons)]
    if reasoned:
        parts.append(
            "Survivors that were read, with the reason why they may:\n\n" + _list(reasoned)
        )
    if unread:
        parts.append("Survivors without a reason:\n\n" + _list(unread))
    return "\n\n".join(parts) + "\n"


def enough(outcomes: Outcomes, share: float) -> bool:
    """Whether `share` was killed, and every survivor has its reason."""
    lost = list(filter(survived, outcomes))
    unread = [said for said in lost if said["key"] not in harmless()]
    return 1 - len(lost) / max(len(outcomes), 1) >= share and not unread


def write_report(page: Path, text: str) -> None:
    """Replace what stands in a page between the two marks, which it must have."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"--report: wanted a page with the lines {BEGIN} and {END}, got {page}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def _within(said: dict[str, Any], module: str) -> bool:
    own = said["path"].removeprefix("src/capax/")
    return own == module or own.startswith(f"{module}/")


def _table(title: str, groups: list[tuple[str, Outcomes]], reasons: dict[str, str]) -> str:
    columns = (
        "planted",
        "killed",
        "of these by time",
        "harmless",
        "other survivors",
        "share killed",
    )
    lines = [f"| {title} | {' | '.join(columns)} |", "|---|---|---|---|---|---|---|"]
    whole = [said for _, group in groups for said in group]
    for name, group in [*((f"`{n}`", g) for n, g in groups if g), ("all", whole)]:
        count = Counter(_fate(said, reasons) for said in group)
        killed = count["killed"] + count["not ended"]
        cells = (len(group), killed, count["not ended"], count["harmless"], count["open"])
        lines.append(
            f"| {name} | {' | '.join(map(str, cells))} | {killed / max(len(group), 1):.1%} |"
        )
    return "\n".join(lines)


def _fate(said: dict[str, Any], reasons: dict[str, str]) -> str:
    if survived(said):
        return "harmless" if said["key"] in reasons else "open"
    return "not ended" if said["by"] == NOT_ENDED else "killed"


def _place(said: dict[str, Any]) -> str:
    return said["name"].removeprefix("src/capax/").replace("`", "'")


def _list(lines: list[str]) -> str:
    return "\n".join(lines)
