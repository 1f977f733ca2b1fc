"""`capax thresholds`: m*(T) of a store with intervals, and the law behind it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.output import JsonFlag, emit

if TYPE_CHECKING:
    from rich.console import Console


def thresholds(
    store: Annotated[Path, typer.Argument(help="Store made by `capax sweep`.")],
    panel: Annotated[
        str | None, typer.Option(help="Panel of the experiment; the first that searches over m.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """The smallest m with success probability 0.8 at every T, with 95% intervals, and how it grows.

    `floor` is what the best possible learner needs on the same task.

    Example: `capax thresholds out/figure2.sqlite`
    """
    from capax.analysis.summary import summarise
    from capax.sweep.store import Store

    with Store.read(store) as opened:
        payload = summarise(opened, panel)
    emit(payload, as_json, lambda console: _show(console, payload))


def _show(console: "Console", payload: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("T", "m*", "95% interval", "floor", "m*/floor", "trials")
    for row in payload["thresholds"]:
        low, high = (("open" if row[side] is None else str(row[side])) for side in ("low", "high"))
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        floor = "" if row["floor"] is None else str(row["floor"])
        cells = (str(row["T"]), str(row["m_star"]), f"{low} - {high}", floor, ratio)
        table.add_row(*cells, str(row["trials"]))
    console.print(table)
    fit = payload["fit"]
    for law in fit["laws"]:
        values = ", ".join(f"{p['name']} = {p['value']:.4g}" for p in law["parameters"])
        console.print(f"  {law['law']:9s} weight {law['weight']:.3f}   {law['formula']}: {values}")
    console.print(fit["verdict"], markup=False)  # [open, 3] is an interval, not a style


def register(app: typer.Typer) -> None:
    app.command("thresholds")(thresholds)
