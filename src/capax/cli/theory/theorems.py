"""`capax theorems`: every statement of the paper, the function that computes it, its test."""

from typing import Annotated

import typer

from capax.cli.speaking.output import JsonFlag, emit
from capax.errors import require
from capax.terminal import Terminal


def theorems(
    number: Annotated[
        str | None, typer.Argument(help="Only statements whose number contains this, e.g. 4.5.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List the statements: number, one line of meaning, function, test, constants compared.

    Example: `capax theorems 4.5`
    """
    from capax.capacity.statements import STATEMENTS

    wanted = "" if number is None else number.lower()
    chosen = [s for s in STATEMENTS if wanted in s.number.lower()]
    known = ", ".join(s.number for s in STATEMENTS)
    require(chosen, "number", f"part of one of: {known}", number)
    rows = [
        {
            "statement": s.number,
            "meaning": s.meaning,
            "functions": list(s.functions),
            "tests": list(s.tests),
            "paper": s.paper,
            "ours": s.ours,
        }
        for s in chosen
    ]

    def render(console: Terminal) -> None:
        for s in chosen:
            console.print(s.number, style="bold")
            console.print(f"  {s.meaning}")
            for label, names in (("function", s.functions), ("test", s.tests)):
                for name in names:
                    console.print(f"  {label:<9} {name}")
            if s.ours:
                console.print(f"  paper     {s.paper}")
                console.print(f"  here      {s.ours}")

    emit({"statements": rows}, json, render)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(theorems)
