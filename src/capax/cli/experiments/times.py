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
    over: Annotated[
        str, typer.Option(help="Laws over T, m, or an axis of the sweep: heads, d, lr, batch_size.")
    ] = "T",
    plot: Annotated[Path | None, typer.Option(help="Also draw it: .png, .svg or .pdf.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Steps to solve: median with a 95% interval for each T, s and m, and the law of its growth.

    Runs that were stopped unsolved count: their time is longer than their steps. They may leave an
    interval open. Only the first run of a trial counts, not its restarts. Laws describe solved
    runs, with the share of runs that are never solved; T^s is the number of statistical queries.
    In an unfinished sweep the slowest runs are missing, and the command prints a warning.
    `--over m` uses the sample size instead of T, and marks the frontier with a star: no smaller
    sample was as fast.

    Example: `capax times parity.sqlite --plot times.png`

    Example: `capax times frontier.sqlite --over m --plot frontier.png`
    """
    from capax.reading import existing_store

    path = existing_store(store)
    if plot is not None:
        from capax.figures.style import check_destination

        check_destination(plot)
    from capax.analysis.times import frontier, run_times, solve_times, time_laws
    from capax.errors import require
    from capax.sweep.storage.store import Store

    with Store.read(path) as opened:
        found = run_times(opened, panel)
        named = {cell.panel for cell in found}
        open_jobs = [job for job in opened.unfinished() if job.panel in named]
    known = any(cell.at(over) is not None for cell in found)
    require(known, "--over", "T, m or an axis of the sweep with numbers as values", over)
    rows, laws = [solve_times(cell) for cell in found], time_laws(found, over)
    if plot is not None:
        from capax.figures.experiments.times_against_length import draw_times
        from capax.figures.style import save

        save(draw_times(rows, laws, over=over), plot)
    best = frontier(rows) if over == "m" else ()
    payload = {
        "rows": [{**row.to_json(), "frontier": row in best} for row in rows],
        "laws": [law.to_json() for law in laws],
        "over": over,
        "unfinished": [{"panel": job.panel, "T": job.T, "trials": job.trials} for job in open_jobs],
        "plot": None if plot is None else str(plot),
    }
    emit(payload, as_json, lambda console: _show(console, payload))


def _show(console: "Terminal", payload: dict[str, Any]) -> None:
    rows = payload["rows"]
    several = ("panel",) if len({row["panel"] for row in rows}) > 1 else ()
    cells = [
        [
            *([row["panel"]] if several else []),
            *("-" if row[name] is None else str(row[name]) for name in ("T", "s", "leap", "m")),
            median_words(row) + (" *" if row["frontier"] else ""),
            interval_words(row),
            f"{row['solved']} of {row['solved'] + row['censored']}",
        ]
        for row in rows
    ]
    head = (*several, "T", "s", "leap", "m", "median steps", "95% interval", "solved")
    console.table(cells, head=head, align="l" * len(several) + "rrrrrlr")
    for law in payload["laws"]:
        console.print(law_words(law, bool(several)))
    if not payload["laws"]:
        console.print(f"No law: solved runs at two values of {payload['over']} are needed.")
    if any(row["frontier"] for row in rows):
        console.print("* on the frontier: no smaller sample was as fast")
    if payload["unfinished"]:
        first = payload["unfinished"][0]
        others = len(payload["unfinished"]) - 1
        more = f" and {others} more" if others else ""
        place = f"{first['panel']}, T = {first['T']}{more}"
        console.print(
            f"The sweep has not ended ({place}). Runs still in training are missing, so medians "
            "may be too small: let the sweep end first."
        )


def median_words(row: dict[str, Any]) -> str:
    """`310`, or `> 5000` if fewer than half of the runs were solved."""
    return f"> {row['limit']}" if row["median"] is None else str(row["median"])


def interval_words(row: dict[str, Any]) -> str:
    """`310 - 450`, or `> 310` if too few runs were solved to close it."""
    return f"> {row['low']}" if row["high"] is None else f"{row['low']} - {row['high']}"


def law_words(law: dict[str, Any], with_panel: bool = False) -> str:
    """One line per law: exponent with interval, T^s beside it, share never solved, fit."""
    low, high = (f"{end:.2f}" if end is not None else "open" for end in (law["low"], law["high"]))
    shared = [
        law["panel"] if with_panel else "",
        f"T = {law['T'][0]}" if law["over"] != "T" else "",
        "all s" if law["s"] is None and law["over"] == "T" else "",
        f"s = {law['s']}" if law["s"] is not None else "",
    ]
    fit = "" if law["p_fit"] is None else f", fit p = {law['p_fit']:.2g}"
    asked = law["statistical_queries"]
    queries = "" if asked is None else f" (statistical queries: a = {asked})"
    return (
        f"  {', '.join(filter(None, shared))}: {law['law']} with a = {law['exponent']:.2f} "
        f"[{low}, {high}], c = {law['c']:.3g}{queries}; "
        f"never solved: {law['never']:.0%} of runs{fit}"
    )


def register(app: typer.Typer) -> None:
    app.command("times")(times)
