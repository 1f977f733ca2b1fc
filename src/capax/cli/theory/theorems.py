"""`capax theorems`: every statement of the paper, its functions and tests, both numbers, checks."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit
from capax.errors import InputError, require
from capax.terminal import Terminal

if TYPE_CHECKING:
    from capax.statements.checking import CheckedStatement
    from capax.statements.rows.statement import Statement


def theorems(
    number: Annotated[
        str | None,
        typer.Argument(help="One statement, e.g. 4.5 or A.17; a part of it shows all that match."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="The paper's number and ours, and the errata.")
    ] = False,
    norms: Annotated[
        str, typer.Option(help="Parameters for --explain, as name=value pairs: `T=500,eps=0.1`.")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Evaluate each statement on a small instance.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """List the statements: number, one line of meaning, function, test, constants compared.

    Example: `capax theorems A.17 --explain`
    """
    from capax.statements.registry import STATEMENTS, find

    chosen = find(number)
    known = ", ".join(s.number for s in STATEMENTS)
    require(chosen, "number", f"part of one of: {known}", number)
    require(explain or not norms, "--norms", "--explain beside it", norms)
    require(len(chosen) == 1 or not norms, "number", "one statement for --norms", len(chosen))
    if check:
        _check(chosen, json)
        return
    rows = [_row(s, _numbers(s, norms) if explain else None, explain) for s in chosen]
    emit({"statements": rows}, json, lambda console: _show(console, chosen, rows))


def _row(s: "Statement", numbers: dict[str, Any] | None, explain: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "statement": s.label,
        "number": s.number,
        "meaning": s.meaning,
        "functions": list(s.functions),
        "tests": list(s.tests),
        "paper": s.paper,
        "ours": s.ours,
    }
    if explain:
        from capax.statements.errata import errata_of

        found = errata_of(s.number)
        row["numbers"] = numbers
        row["errata"] = [
            {"name": e.name, "printed": e.printed, "corrected": e.corrected} for e in found
        ]
    return row


def _numbers(s: "Statement", norms: str) -> dict[str, Any] | None:
    from capax.statements.comparison import compare

    return compare(s.number, parse_parameters(norms))


def parse_parameters(text: str) -> dict[str, float | int]:
    """`a=1,b=2` as numbers."""
    found: dict[str, float | int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = pair.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"--norms: wanted name=value pairs, got {pair!r}") from None
    return found


def _show(console: Terminal, chosen: "list[Statement]", rows: list[dict[str, Any]]) -> None:
    for s, row in zip(chosen, rows, strict=True):
        console.print(s.label, style="bold")
        console.print(f"  {s.meaning}")
        for label, names in (("function", s.functions), ("test", s.tests)):
            for name in names:
                console.print(f"  {label:<9} {name}")
        if s.paper or s.ours:
            console.print(f"  paper     {s.paper or '-'}")
            console.print(f"  here      {s.ours or '-'}")
        for line in _explained(row):
            console.print(f"  {line}")


def _explained(row: dict[str, Any]) -> list[str]:
    """Both numbers and the errata, as lines."""
    lines: list[str] = []
    numbers = row.get("numbers")
    if numbers:
        parameters = ", ".join(f"{k} = {v:g}" for k, v in numbers["parameters"].items())
        lines.append(f"at        {parameters}")
        for name in ("paper", "corrected", "ours"):
            if name in numbers:
                lines.append(f"{name:<9} {numbers['quantity']}: {numbers[name]:.6g}")
    for e in row.get("errata", ()):
        lines.append(f"erratum   {e['name']} printed: {e['printed']}")
        lines.append(f"          right: {e['corrected']}")
    return lines


def _check(chosen: "list[Statement]", json: bool) -> None:
    """Run the checks; exit code 1 if one fails. Statements of ours have tests, no checks."""
    from capax.statements.checking import CHECKS, check_statements

    numbers = [s.number for s in chosen if s.number in CHECKS]
    require(numbers, "number", "a statement of the paper for --check", chosen[0].label)
    found = check_statements(numbers)
    emit([c.to_json() for c in found], json, lambda console: _show_checks(console, found))
    if not all(c.holds for c in found):
        raise typer.Exit(1)


def _show_checks(console: Terminal, found: "list[CheckedStatement]") -> None:
    for c in found:
        verdict = "true" if c.holds else "FALSE"
        line = f"{c.number:<12} {verdict:<6} {c.instance.text}"
        console.print(line, style="" if c.holds else "bold red")
        for erratum, printed in c.errata:
            word = "as printed it holds" if printed.holds else "as printed it fails"
            text = f"{'':<12} {erratum.name:<6} {word}: {printed.text}"
            console.print(text, style="dim")
    seconds = sum(c.seconds for c in found)
    true = sum(c.holds for c in found)
    plural = "" if len(found) == 1 else "s"
    console.print(f"{true} of {len(found)} statement{plural} true in {seconds:.1f} s")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(theorems)
