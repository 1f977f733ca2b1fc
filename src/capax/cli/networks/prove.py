"""`capax prove` and `capax check`: proof files, and their check by a separate program."""

from pathlib import Path
from typing import Annotated

import typer

from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note

REAL = "real arithmetic"


def prove_command(
    weights: Annotated[Path, typer.Argument(help="File of capax compile, or a trained network.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Proof file. Default: the name with .proof.")
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(help="Formula of a trained network. Default: the one capax decompile reads."),
    ] = None,
    cells: Annotated[
        int, typer.Option(min=1, help="Cells of inputs that are tried at most (trained networks).")
    ] = 4000,
    json: JsonFlag = False,
) -> None:
    """Write a proof that the network decides as its function on all inputs, for others to check.

    The file holds the statement and lines of numbers: for a compiled network one for each pattern
    of the relevant bits, for a trained one a tree of cells. `capax check` reads it with exact
    arithmetic and no search. Whether the float32 forward pass decides alike, in any order of
    summation, is a second statement: it is proved here or not, and is not part of the file.

    Example: `capax prove weights.safetensors --out weights.proof`
    """
    from capax.reading import existing

    existing(weights, "a weights file")
    target = weights.with_suffix(".proof") if out is None else out
    check_destinations(target)
    from capax.boolean.parser import parse
    from capax.proving.in_float32 import float32_margin
    from capax.proving.proof_files import prove

    found = prove(weights, None if function is None else parse(function), cells=cells)
    lines = found.text.count("\n")
    note(f"proof: {found.write(target)}")
    single = float32_margin(weights, found)
    holds = [REAL] if single is None else [REAL, "float32"]
    payload = {"statement": found.statement, "lines": lines, "out": str(target)}
    payload |= {"holds": holds, "float32_margin": single}
    kept = "not proved" if single is None else f"the same decisions, margin at least {single:.4g}"
    text = f"{found.statement}\nfloat32, sums in any order: {kept} (not in the file)"
    emit(payload, json, lambda console: console.print(text))


def check_command(
    proof: Annotated[Path | None, typer.Argument(help="File written by capax prove.")] = None,
    weights: Annotated[Path | None, typer.Argument(help="The weights that it names.")] = None,
    print_checker: Annotated[
        bool, typer.Option("--print-checker", help="Print the checker: one file of plain Python.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Check a proof file; exit code 1 unless it is accepted, with the first line that fails.

    The checker is one file that needs Python alone. It runs in a separate process; copy it with
    `--print-checker` and run it without Capax.

    Example: `capax check weights.proof weights.safetensors`
    """
    from capax.errors import InputError
    from capax.proving.run_checker import CHECKER, check_proof

    if print_checker:
        source = CHECKER.read_text(encoding="utf-8")
        emit({"checker": source}, json, lambda _: typer.echo(source, nl=False))
        return
    if proof is None or weights is None:
        raise InputError("capax check: give a proof file and a weights file (or --print-checker)")
    from capax.reading import existing

    existing(proof, "a proof file")
    existing(weights, "a weights file")
    found = check_proof(proof, weights)
    proved = found["status"] == "proved"
    found["holds"] = [REAL] if proved else []
    told = f"line {found['line']}: {found['reason']}"
    text = f"proved: {found['statement']}" if proved else f"REFUSED: {told}"
    emit(found, json, lambda console: console.print(text))
    if not proved:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("prove")(prove_command)
    app.command("check")(check_command)
