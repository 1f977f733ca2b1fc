"""`capax reference`: the results in the package, and how they were made."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capax.cli.experiments.card_table import show_card
from capax.cli.speaking.output import JsonFlag, emit
from capax.errors import counted

if TYPE_CHECKING:
    from capax.analysis.reference.published import Published
    from capax.analysis.reference.reference_stores import Reference
    from capax.analysis.reference.threshold_curves import ThresholdCurve
    from capax.terminal import Terminal

app = typer.Typer(rich_markup_mode="markdown", invoke_without_command=True)


@app.callback()
def listed(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the reference results: experiment, machine, and the command that repeats it.

    `capax reproduce`, `capax figure 2` and `capax report` compare your thresholds with them if
    task, model and protocol are the same. `published` are the points of the paper's own figures,
    `learners` the card of the reference learners.

    Example: `capax reference`
    """
    if context.invoked_subcommand is not None:
        return
    from capax.analysis.reference.reference_stores import references

    found = references()
    also = {"published": "figures 2, 3, 4", "learners": "the card of the reference learners"}
    payload = {"references": [asdict(entry) for entry in found], **also}
    emit(payload, as_json, lambda console: _show(console, found))


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Name of a reference, `published` or `learners`.")],
    as_json: JsonFlag = False,
) -> None:
    """Show a reference: its thresholds with intervals, or the points that the paper published.

    A reference without thresholds has learning curves: `capax figure` draws them.

    `published` are the points of Figures 2, 3 and 4, read from the figures of the paper. `learners`
    is the card of the reference learners, which `capax card` shows beside yours.

    Example: `capax reference show published --json`

    Example: `capax reference show learners --json`
    """
    from capax.analysis.reference.published import NAME, published

    if name == "learners":
        from capax.cards.answers.reference_card import reference_card

        card = reference_card()
        emit(card.to_dict(), as_json, lambda console: show_card(console, card))
        return

    if name == NAME:
        found = published()
        emit(asdict(found), as_json, lambda console: _show_published(console, found))
        return
    from capax.analysis.reference.reference_stores import reference
    from capax.analysis.reference.threshold_curves import threshold_curves
    from capax.sweep.storage.store import Store

    entry = reference(name)
    with Store.read(entry.path) as store:
        curves = threshold_curves([store]) if entry.has_thresholds else ()
    payload = {"reference": asdict(entry), "curves": [curve.to_json() for curve in curves]}
    emit(payload, as_json, lambda console: _show_reference(console, entry, curves))


@app.command("compare")
def compare(
    store: Annotated[Path, typer.Argument(help="Store made by `capax sweep`, or a reference.")],
    as_json: JsonFlag = False,
) -> None:
    """Compare the runs of a store with the published runs of Figures 3 and 4.

    Solved replicates of Figure 3 by Fisher's exact test, times of Figure 4 by a rank test, for
    every panel of the store with the same task. `capax thresholds` compares with Figure 2.

    Example: `capax reference compare figure4`
    """
    from capax.analysis.reference.published_runs import beside_published_runs
    from capax.reading import existing_store
    from capax.sweep.storage.store import Store

    with Store.read(existing_store(store)) as opened:
        found = beside_published_runs(opened)
    payload = {"comparisons": [{"panel": panel, **asdict(tested)} for panel, tested in found]}
    rows = [(panel, t.ours, t.published, t.test, f"{t.p_value:.2g}") for panel, t in found]
    head = ("panel", "this store", "published", "test", "p")
    emit(payload, as_json, lambda console: console.table(rows, head=head, align="llllr"))


@app.command("add")
def add(
    store: Annotated[Path, typer.Argument(help="Finished store made by `capax sweep`.")],
    name: Annotated[str, typer.Option(help="Name of the reference.")],
    command: Annotated[
        str | None, typer.Option(help="The command that made it; from the store by default.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the reference; your own data folder by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a reference from a store: every trial with its seed and outcome.

    Runs are kept for panels that are drawn as curves (`whole_curves`, `mode = "online"`), and the
    parameters of one run of such a panel.

    Example: `capax reference add out/figure2-paper.sqlite --name mine`
    """
    from capax.analysis.reference.reference_stores import OWN_FOLDER, add_reference

    made = add_reference(store, name, command=command, folder=folder or OWN_FOLDER)
    text = f"{made.path}: {counted(made.trials, 'trial')}, {made.path.stat().st_size / 1000:.0f} kB"
    emit(asdict(made), as_json, lambda console: console.print(text))


def _show_published(console: "Terminal", found: "Published") -> None:
    console.print(f"{found.paper}; {found.provenance}.")
    rows = [(q.T, f"{q.m_star:g}", f"{q.low:g} - {q.high:g}") for q in found.figure2]
    head = ("T", "m*", "one deviation")
    title = f"Figure 2: {found.figure2_estimator}"
    console.table(rows, head=head, align="rrl", title=title)
    of = found.figure3["replicates"]
    for m, solved in found.figure3["solved"].items():
        where = f"T = {found.figure3['T']}, m = {m}"
        console.print(f"Figure 3, {where}: {solved} of {of} replicates solved")
    for T, steps in found.figure4["steps"].items():
        where = f"T = {T}, steps until the loss is below {found.figure4['loss']}"
        console.print(f"Figure 4, {where}: {', '.join(map(str, steps))}")


def _show_reference(
    console: "Terminal", entry: "Reference", curves: "tuple[ThresholdCurve, ...]"
) -> None:
    _show(console, (entry,))
    if not curves:
        console.print(f"learning curves; `capax figure NUMBER --store {entry.name}` draws them")
    for curve in curves:
        rows = []
        for t in curve.answer.thresholds:
            known = f"{t.low} - {t.high}" if t.status == "closed" else t.status
            rows.append((t.T, "-" if t.m_star is None else t.m_star, known, t.trials))
        console.table(rows, head=("T", "m*", "95% interval", "trials"), align="rrlr")
        console.print(curve.verdict)


def _show(console: "Terminal", found: "tuple[Reference, ...]") -> None:
    if not found:
        console.print("no reference results in this installation")
    for entry in found:
        lengths = f"T = {entry.T[0]} to {entry.T[-1]}"
        console.print(f"{entry.name}: {entry.experiment}, {lengths}", style="bold")
        made = f"{entry.made[:10]} with capax {entry.versions.get('capax', '?')}"
        lines = (
            f"{counted(entry.trials, 'trial')}, {counted(entry.runs, 'run')} on {entry.device}, "
            f"{made}",
            f"made by: {entry.command}",
        )
        for line in lines:
            console.print(f"  {line}")


def register(main: typer.Typer) -> None:
    """Add `reference` to the command line."""
    main.add_typer(app, name="reference")
