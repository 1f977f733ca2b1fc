"""`capax audit`: what the attention heads of a real checkpoint can hold, and what they do."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from capax.cli.speaking.output import JsonFlag, emit, stderr
from capax.errors import require

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


def audit(
    checkpoint: Annotated[
        Path, typer.Argument(help="A folder, or a .safetensors, .bin, .pt, .gguf or .onnx file.")
    ],
    text: Annotated[
        Path | None, typer.Option(help="A text the model then reads (needs capax[audit]).")
    ] = None,
    split: Annotated[
        str, typer.Option(help="`tokenizer`, or `spaces` for text already in pieces of vocab.txt.")
    ] = "tokenizer",
    lines: Annotated[bool, typer.Option("--lines", help="Read every line of it alone.")] = False,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Compare with this checkpoint, or with `random`; may be repeated."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page here.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw maps of all heads here (.png, .svg, .pdf).")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table of all heads here.")] = None,
    sort: Annotated[
        str, typer.Option(help="Column to sort by, largest first (default: layer and head).")
    ] = "",
    top: Annotated[int | None, typer.Option(help="Print this many rows (default: all).")] = None,
    family: Annotated[
        str | None, typer.Option(help="Family, where no config.json says it: llama, bert, ...")
    ] = None,
    heads: Annotated[int | None, typer.Option(help="Heads, where the file does not say.")] = None,
    kv_heads: Annotated[int | None, typer.Option(help="Key-value heads, likewise.")] = None,
    head_width: Annotated[int | None, typer.Option(help="Width of a head, likewise.")] = None,
    scale: Annotated[
        float | None, typer.Option(help="What multiplies the scores, likewise.")
    ] = None,
    norm: Annotated[
        str | None, typer.Option(help="torch.nn files: norms `first`, `last`, or `none` to fold.")
    ] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Longest context, likewise.")] = None,
    init_std: Annotated[
        float | None, typer.Option(help="Size of normal initial weights, for the comparison.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Numbers of every attention head of a checkpoint, beside the same at random initialisation.

    Reads local files only and runs no code from them. What the file does not say is asked for.

    Example: `capax audit path/to/model --sort ratio_to_random --top 20`
    """
    from capax.audit.auditing import audit as run
    from capax.audit.comparing import against_random, compare
    from capax.files import check_writable

    require(top is None or top >= 1, "--top", "a number of rows >= 1", top)
    for out in filter(None, (csv, html)):
        check_writable(out)
    if picture is not None:
        from capax.figures.style import check_destination

        check_destination(picture)
    reading = {"text": text, "split": split, "lines": lines}
    options = {"family": family, "heads": heads, "kv_heads": kv_heads, "head_width": head_width,
               "scale": scale, "norm": norm, "context": context, "init_std": init_std}  # fmt: skip
    found = _with_progress(
        lambda progress: run(checkpoint, progress=progress, **reading, **options)
    )
    order = _sorted(list(found.rows), sort)
    comparisons = [
        against_random(found)
        if other == "random"
        else compare(found, run(other, **reading, **options))
        for other in against or ()
    ]
    if csv is not None:
        _write_csv(order, csv)
    if html is not None:
        from capax.report.audit_page import write_audit_page

        write_audit_page(found, comparisons, html)
    if picture is not None:
        from capax.figures.heads.audit_heatmaps import draw_head_maps
        from capax.figures.style import save

        save(draw_head_maps(found.rows), picture)
    payload = found.to_json() | ({"against": comparisons} if comparisons else {})
    emit(payload, json, lambda console: _render(found, order[:top], comparisons, console))


def _with_progress(work: Any) -> Any:
    """Run `work(progress)` with a line on stderr that says how far it is, on a terminal only."""
    console = stderr()
    if not console.is_terminal:
        return work(None)
    with console.status("opening") as status:

        def progress(label: str, done: int, total: int) -> None:
            status.update(f"{label}: {done} of {total}")

        return work(progress)


def _sorted(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    if not column:
        return rows
    known = [name for name, value in rows[0].items() if not isinstance(value, str)]
    require(column in known, "--sort", f"a column among {', '.join(known)}", column)
    return sorted(rows, key=lambda row: (row[column] is None, -(row[column] or 0)))


def _write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    import csv
    import io

    from capax.files import write_atomically

    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def _render(
    found: "Audit", rows: list[dict[str, Any]], comparisons: list[dict[str, Any]], console: Console
) -> None:
    _render_facts(found, console)
    _render_rows(rows, console)
    if len(rows) < len(found.rows):
        console.print(f"{len(rows)} of {len(found.rows)} heads; without --top all", markup=False)
    _render_text(found, console)
    for comparison in comparisons:
        _render_comparison(comparison, console)
    for reading in found.to_json()["readings"]:
        console.print(reading, style="dim", markup=False)


def _render_facts(found: "Audit", console: Console) -> None:
    facts = found.facts
    grouped = f", {facts.kv_heads} key-value heads" if facts.kv_heads != facts.heads else ""
    lines = [
        f"{facts.family}, {found.format}: {facts.layers} layers x {facts.heads} heads{grouped}, "
        f"head width {facts.head_width}, width {facts.width}",
        f"scale {facts.scale:.6g}; positions: {facts.positions}"
        + (f", up to {facts.limit}" if facts.limit else "")
        + f"; norm: {facts.norm}, folded in",
        f"heads from {facts.sources.get('heads', '?')}; random start: {found.random_start}",
        *facts.notes,
    ]
    console.print(lines[0], style="bold", markup=False, soft_wrap=True)
    for line in lines[1:]:
        console.print(line, markup=False, soft_wrap=True)
    if found.not_counted:
        some, more = ", ".join(found.not_counted[:3]), len(found.not_counted)
        console.print(f"not counted: {more} attention tensors, {some}", markup=False)


def _render_rows(rows: list[dict[str, Any]], console: Console) -> None:
    parts = any(row["part"] for row in rows)
    columns = WITH_TEXT if "n95" in rows[0] else dict(zip(COLUMNS, COLUMNS, strict=True))
    columns = {k: v for k, v in columns.items() if any(row.get(k) is not None for row in rows)}
    names = [*(["part"] if parts else []), "layer", "head", *columns]
    cells = [[_cell(name, row.get(name)) for name in names] for row in rows]
    _print_table([columns.get(name, name) for name in names], cells, console)


def _print_table(names: list[str], rows: list[list[str]], console: Console) -> None:
    """Aligned to the right, and never cut, however narrow the terminal is."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for i, row in enumerate([names, *rows]):
        line = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        console.print(line, style="bold" if i == 0 else "", markup=False, soft_wrap=True)


def _render_text(found: "Audit", console: Console) -> None:
    from collections import Counter

    about = found.text
    if about is None:
        return
    console.print(
        f"text: {about['tokens_read']} tokens in {about['windows']} windows, contexts up to "
        f"{about['longest_context']}; shares and n95 are means over the longer half of contexts",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    counts = Counter(row["kind"] for row in found.rows)
    for rule in about["kinds"]:
        console.print(f"{counts[rule['kind']]:5d}  {rule['kind']}: {rule['rule']}", markup=False)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "capacity_share":
        return f"{100 * value:.2f} %"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _render_comparison(comparison: dict[str, Any], console: Console) -> None:
    console.print(f"against {comparison['against']}", style="bold", markup=False, soft_wrap=True)
    rows = [
        [name, f"{entry['median_here']:.4g}", f"{entry['median_there']:.4g}",
         f"{100 * entry['larger_here']:.0f} %"]
        for name, entry in comparison["summary"].items()
    ]  # fmt: skip
    _print_table(["median over heads", "here", "there", "larger here"], rows, console)
    console.print("larger here near 50 %: this quantity does not tell the two apart", style="dim",
                  markup=False)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add `audit` to the command line."""
    app.command("audit", epilog="Example: `capax audit path/to/model --sort ratio_to_random`")(
        audit
    )
