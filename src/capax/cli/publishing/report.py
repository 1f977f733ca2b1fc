"""`capax report`: one self-contained HTML file from the stores of sweeps."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from capax.cli.speaking.output import JsonFlag, emit, stderr
from capax.cli.speaking.shared_options import StoreFiles
from capax.errors import counted


def report(
    stores: StoreFiles,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    json: JsonFlag = False,
) -> None:
    """Write a report: figures, tables, settings, versions, and the runs of every number.

    The file does not use the network; it opens on a phone and follows dark mode.

    Example: `capax report figure2.sqlite figure4.sqlite --out report.html`
    """
    from capax.files import check_writable
    from capax.reading import existing_store

    check_writable(out)
    for store in stores:
        existing_store(store)
    from capax.report.build import write_report

    with _waiting():
        page = write_report(stores, out)
    summary = {
        "report": str(out),
        "bytes": out.stat().st_size,
        "sections": [section.anchor for section in page.sections],
        "runs": sum(len(store["rows"]) for store in page.stores),
        "findings": [{"value": f.value, "meaning": f.meaning} for f in page.findings],
    }
    emit(summary, json, lambda console: console.print(_line(summary)))


def _waiting() -> AbstractContextManager[object]:
    """On a terminal, a line while failed runs are decompiled, which takes seconds for each."""
    console = stderr()
    return console.status("reading the stores") if console.is_terminal else nullcontext()


def _line(summary: dict) -> str:
    return (
        f"{summary['report']}: {counted(summary['runs'], 'run')}, {summary['bytes'] / 1e6:.1f} MB"
    )


def register(app: typer.Typer) -> None:
    """Add `report` to the command line."""
    app.command("report", epilog="Example: `capax report figure2.sqlite --out report.html`")(report)
