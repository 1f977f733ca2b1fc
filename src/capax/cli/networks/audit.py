"""`capax audit`: the attention heads of a real checkpoint: sizes, and behaviour on a text."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from capax.cli.networks import audit_options as options
from capax.cli.networks.audit_table import render
from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, stderr
from capax.errors import require

if TYPE_CHECKING:
    from capax.audit.auditing import Audit


def audit(
    checkpoint: options.Checkpoint,
    text: options.TextFile = None,
    split: options.Split = "tokenizer",
    lines: options.LinesFlag = False,
    take_out: options.TakeOut = None,
    against: options.Against = None,
    html: options.PageFile = None,
    picture: options.PictureFile = None,
    csv: options.TableFile = None,
    sort: options.SortColumn = "",
    top: options.TopRows = None,
    family: options.Family = None,
    heads: options.NumHeads = None,
    kv_heads: options.NumKeyValueHeads = None,
    head_width: options.HeadWidth = None,
    scale: options.Scale = None,
    norm: options.NormPlace = None,
    context: options.LongestContext = None,
    init_std: options.InitialSize = None,
    json: JsonFlag = False,
) -> None:
    """Numbers of every attention head of a checkpoint, beside the same at random initialisation.

    Reads local files only and runs no code from them. Facts that a file lacks are given by options.

    Example: `capax audit path/to/model --sort ratio_to_random --top 20`
    """
    from capax.audit.auditing import audit as run

    require(top is None or top >= 1, "--top", "a number of rows >= 1", top)
    check_destinations(csv, html, picture=picture)
    given = {"text": text, "split": split, "lines": lines, "take_out": take_out,
             "family": family, "heads": heads, "kv_heads": kv_heads, "head_width": head_width,
             "scale": scale, "norm": norm, "context": context, "init_std": init_std}  # fmt: skip
    found = _with_progress(lambda progress: run(checkpoint, progress=progress, **given))
    order = _sorted(list(found.rows), sort)
    comparisons = [_compared(found, other, given) for other in against or ()]
    if csv is not None:
        _write_csv(order, csv)
    if html is not None:
        from capax.report.audit_page import write_audit_page

        write_audit_page(found, comparisons, html)
    if picture is not None:
        _draw(found, picture)
    payload = found.to_json() | ({"against": comparisons} if comparisons else {})
    emit(payload, json, lambda console: render(found, order[:top], comparisons, console))


def _compared(found: "Audit", other: str, given: dict[str, Any]) -> dict[str, Any]:
    from capax.audit.auditing import audit as run
    from capax.audit.comparing import against_random, compare

    return against_random(found) if other == "random" else compare(found, run(other, **given))


def _draw(found: "Audit", picture: Path) -> None:
    from capax.figures.heads.audit_heatmaps import draw_head_maps
    from capax.figures.style import save

    save(draw_head_maps(found.rows), picture)


def _with_progress(work: Any) -> Any:
    """Run `work(progress)` with a line of progress on stderr, on a terminal only."""
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
    known = [name for name, value in rows[0].items() if not isinstance(value, str | list)]
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
    writer.writerows({name: _flat(value) for name, value in row.items()} for row in rows)
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def _flat(value: Any) -> Any:
    """Lists of words and examples as JSON in one cell."""
    from json import dumps

    return dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def register(app: typer.Typer) -> None:
    """Add `audit` to the command line."""
    app.command("audit", epilog="Example: `capax audit path/to/model --sort ratio_to_random`")(
        audit
    )
