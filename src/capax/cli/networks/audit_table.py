"""The output of `capax audit`: the model's facts, the table of heads, comparisons."""

from typing import TYPE_CHECKING, Any

from capax.foreign import one_line, shortened
from capax.terminal import Terminal

if TYPE_CHECKING:
    from capax.audit.auditing import Audit

COLUMNS = ("W_QK_F", "ratio_to_random", "W_QK_2", "stable_rank", "W_VO_2", "W_VO_21",
           "score_radius", "capacity_share")  # fmt: skip
# With text the columns of the run come first, under short headings; --csv and --json have all.
WITH_TEXT = {
    "kind": "kind", "n95": "n95", "n95_exponent": "exponent", "n95_exponent_low": "low",
    "n95_exponent_high": "high", "n95_exponent_shuffled": "shuffled",
    "n95_exponent_random": "random",
    "effective_tokens": "effective", "first_token_share": "first", "mean_distance": "distance",
    "W_QK_F": "W_QK_F", "ratio_to_random": "to_random",
}  # fmt: skip


def render(
    found: "Audit", rows: list[dict[str, Any]], comparisons: list[dict[str, Any]], console: Terminal
) -> None:
    """Print facts, heads, results on the text, comparisons and how to read them."""
    _render_facts(found, console)
    _render_rows(rows, console)
    if len(rows) < len(found.rows):
        console.print(f"{len(rows)} of {len(found.rows)} heads; without --top all")
    _render_text(found, console)
    for comparison in comparisons:
        _render_comparison(comparison, console)
    for reading in found.to_json()["readings"]:
        console.print(reading, style="dim")


def _render_facts(found: "Audit", console: Terminal) -> None:
    facts = found.facts
    grouped = f", {facts.kv_heads} key-value heads" if facts.kv_heads != facts.heads else ""
    lines = [
        f"{facts.family}, {found.format}: {facts.layers} layers x {facts.heads} heads{grouped}, "
        f"head width {facts.head_width}, width {facts.width}",
        f"scale {facts.scale:.6g}; positions: {facts.positions}"
        + (f", up to {facts.limit}" if facts.limit else "")
        + f"; norm: {facts.norm}{'' if facts.norm == 'none' else ', folded in'}",
        f"heads from {facts.sources.get('heads', '?')}; random start: {found.random_start}",
        *facts.notes,
    ]
    console.print(lines[0], style="bold")
    for line in lines[1:]:
        console.print(shortened(line, 1000))
    if found.not_counted:
        count, some = len(found.not_counted), map(one_line, found.not_counted[:3])
        tensors = "attention tensor" if count == 1 else "attention tensors, for example"
        console.print(f"not counted: {count} {tensors} {', '.join(some)}")


def _render_rows(rows: list[dict[str, Any]], console: Terminal) -> None:
    parts = any(row["part"] for row in rows)
    columns = WITH_TEXT if "n95" in rows[0] else dict(zip(COLUMNS, COLUMNS, strict=True))
    columns = {k: v for k, v in columns.items() if any(row.get(k) is not None for row in rows)}
    names = [*(["part"] if parts else []), "layer", "head", *columns]
    cells = [[_cell(name, row.get(name)) for name in names] for row in rows]
    head = [columns.get(name, name) for name in names]
    console.table(cells, head=head, align="r" * len(head))


def _render_text(found: "Audit", console: Terminal) -> None:
    from collections import Counter

    from capax.audit.text.telling import (
        example_in_words,
        looks_in_words,
        loss_in_words,
        reading_in_words,
        telling_heads,
        why_telling,
    )

    about = found.text
    if about is None:
        return
    console.print(reading_in_words(about))
    counts = Counter(row["kind"] for row in found.rows)
    for rule in about["kinds"]:
        console.print(f"{counts[rule['kind']]:5d}  {rule['kind']}: {rule['rule']}")
    console.table(
        [[row["layer"], row["head"], row["kind"], loss_in_words(row), looks_in_words(row),
          "; ".join(map(example_in_words, row["examples"][:1]))]
         for row in telling_heads(found.rows)],
        head=["layer", "head", "kind", "loss without it", "looks at", "example"], align="rrllll",
        title="Most telling heads",
    )  # fmt: skip
    console.print(why_telling(found.rows, about), style="dim")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "capacity_share":
        return f"{100 * value:.2f} %"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _render_comparison(comparison: dict[str, Any], console: Terminal) -> None:
    console.print(f"against {comparison['against']}", style="bold")
    rows = [
        [name, f"{entry['median_here']:.4g}", f"{entry['median_there']:.4g}",
         f"{100 * entry['larger_here']:.0f} %"]
        for name, entry in comparison["summary"].items()
    ]  # fmt: skip
    head = ["median over heads", "here", "there", "larger here"]
    console.table(rows, head=head, align="lrrr")
    console.print("larger here near 50 %: this quantity does not distinguish the two", style="dim")
