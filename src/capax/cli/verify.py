"""`capax verify`: recompute a certificate from the weights alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.output import JsonFlag, emit

if TYPE_CHECKING:
    from rich.console import Console

    from capax.compiler import Verification


def verify_command(
    weights: Annotated[Path, typer.Argument(help="File written by capax compile.")],
    json: JsonFlag = False,
) -> None:
    """Check a compiled network against its certificate; exit code 1 when a claim does not hold.

    Example: `capax verify weights.safetensors`
    """
    from capax.compiler import verify

    verdict = verify(weights)
    emit(verdict.to_json(), json, lambda console: show_verdict(console, verdict))
    if not verdict.ok:
        raise typer.Exit(1)


def show_verdict(console: "Console", verdict: "Verification") -> None:
    """Every claim beside the recomputed number; the failed ones first and in red."""
    from rich.table import Table

    table = Table(
        title=f"{verdict.path}: {verdict.function}, T = {verdict.T}", title_justify="left"
    )
    for column in ("claim", "in the file", "from the weights", ""):
        table.add_column(column)
    for check in (*verdict.failed, *(c for c in verdict.checks if c.ok)):
        mark, style = ("ok", None) if check.ok else ("FAILS", "bold red")
        table.add_row(check.name, _text(check.claimed), _text(check.recomputed), mark, style=style)
    console.print(table)
    console.print(
        f"method: {verdict.method}; worst input found by search: {verdict.attacked_error:.6g}"
    )
    if verdict.ok:
        console.print("ok: every claim holds", style="green")
    else:
        names = ", ".join(check.name for check in verdict.failed[:4])
        more = f" and {len(verdict.failed) - 4} more" if len(verdict.failed) > 4 else ""
        console.print(f"NOT OK: {names}{more}", style="bold red")


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify_command)
