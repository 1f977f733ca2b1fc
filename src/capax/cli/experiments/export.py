"""`capax export`: every run of a store as CSV or Parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capax.cli.speaking.output import JsonFlag, emit, note
from capax.errors import counted

if TYPE_CHECKING:
    from capax.sweep.storage.store import Store, StoreError


def export(
    store: Annotated[Path, typer.Argument(help="Store made by `capax sweep`.")],
    out: Annotated[Path, typer.Option(help="File to write: .csv or .parquet.")],
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Add what each kept model computes (decompiled).")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write one row per run: where it belongs, how it ended, its full spec and versions.

    With --formulas, kept models are decompiled: their formula, and how it relates to the target.
    Of a damaged store, or one of another version, the runs that can be read are saved: exit code 1.

    Example: `capax export out/figure2.sqlite --out runs.parquet`
    """
    from capax.reading import existing_store

    existing_store(store)
    from capax.analysis.frames import checked_destination
    from capax.analysis.frames import export as write
    from capax.sweep.storage.store import Store, StoreError

    checked_destination(out)
    try:
        opened = Store.read(store)
    except StoreError as error:
        _saved(store, out, error, as_json)
        raise typer.Exit(1) from None
    with opened:
        rows = write(opened, out, _computed(opened) if formulas else None)
    payload = {"store": str(store), "out": str(out), "runs": rows}
    emit(payload, as_json, lambda console: console.print(f"{out}: {counted(rows, 'run')}"))


def _saved(store: Path, out: Path, error: "StoreError", as_json: bool) -> None:
    """Save what can be read; where that is nothing, `error` stands."""
    from capax.analysis.frames import checked_destination, write_frame
    from capax.analysis.salvaged import runs_lost, salvaged_frame
    from capax.sweep.storage.salvage import examine

    remains = examine(store)
    if not any(left.table == "runs" and left.rows for left in remains.tables):
        raise error
    rows = write_frame(salvaged_frame(remains), checked_destination(out))
    lost = runs_lost(remains)
    note(f"{store}: {remains.problem or 'damaged'}")
    payload = {"store": str(store), "out": str(out), "runs": rows, "lost": lost,
               "problem": remains.problem}  # fmt: skip
    line = f"{out}: {counted(rows, 'run')} saved" + (f", at least {lost} lost" if lost else "")
    emit(payload, as_json, lambda console: console.print(line))


def _computed(store: "Store") -> dict[str, dict[str, str]]:
    """Formula and kind of every run whose parameters were kept, by run id."""
    from capax.analysis.formulas import formulas_of

    return formulas_of(store)


def register(app: typer.Typer) -> None:
    app.command("export")(export)
