"""`capax export`: every run of a store as CSV or Parquet."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capax.cli.output import JsonFlag, emit

if TYPE_CHECKING:
    from capax.sweep.store import Store


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

    Example: `capax export out/figure2.sqlite --out runs.parquet`
    """
    from capax.analysis.frames import export as write
    from capax.sweep.store import Store

    with Store.read(store) as opened:
        rows = write(opened, out, _computed(opened) if formulas else None)
    payload = {"store": str(store), "out": str(out), "runs": rows}
    emit(payload, as_json, lambda console: console.print(f"{out}: {rows} runs", soft_wrap=True))


def _computed(store: "Store") -> dict[str, dict[str, str]]:
    """Formula and kind of every run whose parameters were kept, by run id."""
    from capax.analysis.formulas import formulas_of

    return formulas_of(store)


def register(app: typer.Typer) -> None:
    app.command("export")(export)
