"""`capax export`: every run of a store as CSV or Parquet."""

from pathlib import Path
from typing import Annotated

import typer

from capax.cli.output import JsonFlag, emit


def export(
    store: Annotated[Path, typer.Argument(help="Store made by `capax sweep`.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv or .parquet.")],
    as_json: JsonFlag = False,
) -> None:
    """Write one row per run: where it belongs, how it ended, its full spec and versions.

    Example: `capax export out/figure2.sqlite --out runs.parquet`
    """
    from capax.analysis.frames import export as write
    from capax.sweep.store import Store

    with Store.read(store) as opened:
        rows = write(opened, out)
    payload = {"store": str(store), "out": str(out), "runs": rows}
    emit(payload, as_json, lambda console: console.print(f"{out}: {rows} runs", soft_wrap=True))


def register(app: typer.Typer) -> None:
    app.command("export")(export)
