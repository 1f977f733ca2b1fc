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

    m* is a number only where the trials speak for one. The interval says "> 993" or "<= 16" where
    they bound one side, and that success "does not reach 80 % for any m tried" where it does not.
    The column of the best learner names the protocol it stands for.

    Example: `capax thresholds out/figure2.sqlite`
    """
    from capax.analysis.summary import summarise
    from capax.sweep.store import Store

    with Store.read(store) as opened:
        payload = summarise(opened, panel)
    emit(payload, as_json, lambda console: _show(console, payload))


def _show(console: "Console", payload: dict[str, Any]) -> None:
    from rich.table import Table

    rows = payload["thresholds"]
    floors = [row["floor"] for row in rows if row["floor"]]
    beside = (floors[0]["label"], "m* / that") if floors else ()
    table = Table("T", "m*", "95% interval", *beside, "trials")
    for row in rows:
        star = "-" if row["m_star"] is None else str(row["m_star"])
        cells = [str(row["T"]), star, interval_words(row)]
        if floors:
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            cells += [str(row["floor"]["m"]) if row["floor"] else "", ratio]
        table.add_row(*cells, str(row["trials"]))
    console.print(table)
    if floors and not floors[0]["is_floor"]:
        console.print(
            "No floor: ambiguous samples were redrawn, so every sample shown singles out the rule."
        )
    fit = payload["fit"]
    for law in fit["laws"]:
        console.print(law_words(law, law["law"] in fit["ruled_out"]), markup=False)
    console.print(fit["verdict"], markup=False)  # [open, 3] is an interval, not a style


def interval_words(row: dict[str, Any]) -> str:
    """`53 - 63`, or what the trials say instead: `> 993`, `<= 16`, ..."""
    return f"{row['low']} - {row['high']}" if row["status"] == "closed" else row["status"]


def law_words(law: dict[str, Any], ruled_out: bool) -> str:
    """One line per law: weight, goodness of fit, parameters."""
    values = ", ".join(f"{p['name']} = {p['value']:.4g}" for p in law["parameters"])
    fit = "" if law["p_fit"] is None else f"  fit p = {law['p_fit']:.2g}"
    how = "ruled out   " if ruled_out else f"weight {law['weight']:.3f}"
    return f"  {law['law']:9s} {how}{fit:16s}  {law['formula']}: {values}"


def register(app: typer.Typer) -> None:
    app.command("thresholds")(thresholds)
