"""`capax times`: the steps that runs of a store take to solve their task, and laws of time."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit

if TYPE_CHECKING:
    from capax.terminal import Terminal


def times(
    store: Annotated[Path, typer.Argument(help="Store made by `capax sweep`, or a reference.")],
    panel: Annotated[str | None, typer.Option(help="Only the panel of this name.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw it: .png, .svg or .pdf.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Steps to solve: median with a 95% interval for each T, s and m, and the law of its growth.

    Runs that were stopped unsolved count: their time is longer than their steps. An interval that
    they leave open says so. Only the first run of a trial counts, not its restarts. Laws are of the
    runs that get there, with the share that never does; T^s is what statistical queries need.

    Example: `capax times parity.sqlite --plot times.png`
    """
    from capax.reading import existing_store

    path = existing_store(store)
    if plot is not None:
        from capax.figures.style import check_destination

        check_destination(plot)
    from capax.analysis.times import run_times, solve_times, time_laws
    from capax.sweep.storage.store import Store

    with Store.read(path) as opened:
        found = run_times(opened, panel)
    rows, laws = [solve_times(cell) for cell in found], time_laws(found)
    if plot is not None:
        from capax.figures.experiments.times_against_length import draw_times
        from capax.figures.style import save

        save(draw_times(rows, laws), plot)
    payload = {
        "rows": [row.to_json() for row in rows],
        "laws": [law.to_json() for law in laws],
        "plot": None if plot is None else str(plot),
    }
    emit(payload, as_json, lambda console: _show(console, payload))


def _show(console: "Terminal", payload: dict[str, Any]) -> None:
    rows = payload["rows"]
    several = ("panel",) if len({row["panel"] for row in rows}) > 1 else ()
    cells = [
        [
            *([row["panel"]] if several else []),
            *("-" if row[name] is None else str(row[name]) for name in ("T", "s", "m")),
            f"> {row['limit']}" if row["median"] is None else str(row["median"]),
            interval_words(row),
            f"{row['solved']} of {row['solved'] + row['censored']}",
        ]
        for row in rows
    ]
    head = (*several, "T", "s", "m", "median steps", "95% interval", "solved")
    console.table(cells, head=head, align="l" * len(several) + "rrrrlr")
    for law in payload["laws"]:
        console.print(law_words(law))
    if not payload["laws"]:
        console.print("No law: wanted solved runs at two values of T.")


def interval_words(row: dict[str, Any]) -> str:
    """`310 - 450`, or `> 310` where too few runs were solved to close it."""
    return f"> {row['low']}" if row["high"] is None else f"{row['low']} - {row['high']}"


def law_words(law: dict[str, Any]) -> str:
    """One line per law: exponent with interval, T^s beside it, share never solved, fit."""
    low, high = (f"{end:.2f}" if end is not None else "open" for end in (law["low"], law["high"]))
    bits = "all s" if law["s"] is None else f"s = {law['s']}"
    fit = "" if law["p_fit"] is None else f", fit p = {law['p_fit']:.2g}"
    return (
        f"  {bits}: {law['law']} with a = {law['exponent']:.2f} [{low}, {high}], c = {law['c']:.3g}"
        f" (statistical queries: a = {law['statistical_queries']}); "
        f"never solved: {law['never']:.0%} of runs{fit}"
    )


def register(app: typer.Typer) -> None:
    app.command("times")(times)
