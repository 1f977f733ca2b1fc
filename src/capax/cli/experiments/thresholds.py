"""`capax thresholds`: m*(T) of a store with intervals, and its law."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit, note

if TYPE_CHECKING:
    from capax.terminal import Terminal


def thresholds(
    stores: Annotated[
        list[Path] | None,
        typer.Argument(help="Stores made by `capax sweep`, or names of references."),
    ] = None,
    panel: Annotated[
        str | None, typer.Option(help="Only the panels of this name; all that search over m.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the table as .csv.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Also write the table as .tex.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """The smallest m with success probability 0.8 at every T, with 95% intervals, and how it grows.

    m* is a number only if the trials support one. The interval is "> 993" or "<= 16" if they bound
    one side, and "does not reach 80 % for any m tried" if success stays below. The column of the
    best learner names its protocol. Several stores and panels are several named curves in one
    table. Without a store: the results in the package.

    Example: `capax thresholds out/figure2.sqlite out/heads.sqlite`
    """
    from contextlib import ExitStack

    from capax.files import check_writable
    from capax.reading import existing_store

    paths = [existing_store(store) for store in stores or (Path("paper"),)]
    for out in filter(None, (csv, latex)):
        check_writable(out)
    from capax.analysis.reference.threshold_curves import threshold_curves
    from capax.sweep.storage.store import Store
    from capax.sweep.storage.troubles import trouble_lines, troubles

    with ExitStack() as stack:
        opened = [stack.enter_context(Store.read(path)) for path in paths]
        curves = [curve.to_json() for curve in threshold_curves(opened, panel)]
        for store in opened:
            for line in trouble_lines(t for t in troubles(store) if panel in (None, t.panel)):
                note(line)
    _write_tables(curves, csv, latex)
    payload = {"curves": curves}
    emit(payload, as_json, lambda console: _show(console, payload))


def _write_tables(curves: list[dict[str, Any]], csv: Path | None, latex: Path | None) -> None:
    from capax.analysis.tables.threshold_tables import as_csv, as_latex
    from capax.files import write_atomically

    for out, made in ((csv, as_csv), (latex, as_latex)):
        if out is not None:
            text = made(curves).encode()
            write_atomically(out, lambda file, text=text: file.write(text))


def _show(console: "Terminal", payload: dict[str, Any]) -> None:
    curves = payload["curves"]
    several = len(curves) > 1
    _render_curves(curves, console)
    floors = [row["floor"] for curve in curves for row in curve["thresholds"] if row["floor"]]
    if floors and not all(floor["is_floor"] for floor in floors):
        console.print(
            "No floor: ambiguous samples were redrawn, so every sample identifies the rule."
        )
    for curve in curves:
        if several:
            console.print(f"\n{curve['name']}", style="bold")
        fit = curve["fit"]
        for law in fit["laws"]:
            console.print(law_words(law, law["law"] in fit["ruled_out"]))
        console.print(curve["verdict"])


def _render_curves(curves: list[dict[str, Any]], console: "Terminal") -> None:
    """One row per curve and T; with a column of the best learner if it is known."""
    labels = {row["floor"]["label"] for c in curves for row in c["thresholds"] if row["floor"]}
    beside = (labels.pop() if len(labels) == 1 else "best learner", "m* / that") if labels else ()
    several = ("curve",) if len(curves) > 1 else ()
    rows = []
    for curve in curves:
        for row in curve["thresholds"]:
            cells = [curve["name"]] if several else []
            star = "-" if row["m_star"] is None else str(row["m_star"])
            cells += [str(row["T"]), star, interval_words(row)]
            if beside:
                ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
                cells += [str(row["floor"]["m"]) if row["floor"] else "", ratio]
            rows.append([*cells, row["trials"]])
    head = (*several, "T", "m*", "95% interval", *beside, "trials")
    console.table(rows, head=head, align="l" * len(several) + "rrl" + "r" * (len(beside) + 1))


def interval_words(row: dict[str, Any]) -> str:
    """`53 - 63`, or the status of an open interval: `> 993`, `<= 16`, ..."""
    return f"{row['low']} - {row['high']}" if row["status"] == "closed" else row["status"]


def law_words(law: dict[str, Any], ruled_out: bool) -> str:
    """One line per law: weight, goodness of fit, parameters."""
    values = ", ".join(f"{p['name']} = {p['value']:.4g}" for p in law["parameters"])
    fit = "" if law["p_fit"] is None else f"  fit p = {law['p_fit']:.2g}"
    how = "ruled out   " if ruled_out else f"weight {law['weight']:.3f}"
    return f"  {law['law']:9s} {how}{fit:16s}  {law['formula']}: {values}"


def register(app: typer.Typer) -> None:
    app.command("thresholds")(thresholds)
