"""`capax reference`: the results that come with the package, and how they were made."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capax.cli.speaking.output import JsonFlag, emit

if TYPE_CHECKING:
    from capax.analysis.reference import Reference
    from capax.terminal import Terminal

app = typer.Typer(rich_markup_mode="markdown", invoke_without_command=True)


@app.callback()
def listed(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the reference results: what was run, on what, and the command that makes it again.

    `capax reproduce`, `capax figure 2` and `capax report` lay your thresholds over them where task,
    model and protocol are the same.

    Example: `capax reference`
    """
    if context.invoked_subcommand is not None:
        return
    from capax.analysis.reference import references

    found = references()
    payload = {"references": [asdict(entry) for entry in found]}
    emit(payload, as_json, lambda console: _show(console, found))


@app.command("add")
def add(
    store: Annotated[Path, typer.Argument(help="Finished store made by `capax sweep`.")],
    name: Annotated[str, typer.Option(help="Name of the reference.")],
    command: Annotated[
        str | None, typer.Option(help="The command that made it; from the store by default.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where to; into the package by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Distil a store into a reference: every trial with its seed and outcome, without its runs.

    Example: `capax reference add out/figure2-paper.sqlite --name paper`
    """
    from capax.analysis.reference import FOLDER, add_reference

    made = add_reference(store, name, command=command, folder=folder or FOLDER)
    text = f"{made.path}: {made.trials} trials, {made.path.stat().st_size / 1000:.0f} kB"
    emit(asdict(made), as_json, lambda console: console.print(text))


def _show(console: "Terminal", found: "tuple[Reference, ...]") -> None:
    if not found:
        console.print("no reference results in this installation")
    for entry in found:
        lengths = f"T = {entry.T[0]} to {entry.T[-1]}"
        console.print(f"{entry.name}: {entry.experiment}, {lengths}", style="bold")
        made = f"{entry.made[:10]} with capax {entry.versions.get('capax', '?')}"
        lines = (
            f"{entry.trials} trials, {entry.runs} runs on {entry.device}, {made}",
            f"made by: {entry.command}",
        )
        for line in lines:
            console.print(f"  {line}")


def register(main: typer.Typer) -> None:
    """Add `reference` to the command line."""
    main.add_typer(app, name="reference")
