"""`capax function`: properties of a formula, computed from its truth table."""

from typing import Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import Formula
from capax.terminal import Terminal

_MOST_COEFFICIENTS = 32


def function(
    formula: Formula,
    T: Annotated[int | None, typer.Option("-T", help="Input length; positions must fit.")] = None,
    p: Annotated[float, typer.Option(help="P(bit = 1) for bias and leap.")] = 0.5,
    json: JsonFlag = False,
) -> None:
    """Properties of a Boolean formula: exact support, symmetry, degree, leap, influences, Fourier.

    Operators, tightest first: ~ not, & and, ^ exclusive or, | or. Functions: and, or, xor, parity,
    maj (a tie counts as 0), not, thr2(..), sym(0110; ..), table(0xE8; ..).

    Example: `capax function "maj(x1,x5,x9)"`
    """
    from capax.boolean.parser import parse

    f = parse(formula, T)
    for remark in f.notes:
        note(remark)
    report = describe(formula, f, p)
    emit(report, json, lambda console: _render(report, console))


def describe(formula: str, f: Any, p: float) -> dict[str, Any]:
    """The report of `capax function` as plain data."""
    from capax.boolean.traits.bias import balancing_probabilities, bias
    from capax.boolean.traits.fourier import properties
    from capax.boolean.traits.leap import leap
    from capax.errors import InputError

    found = properties(f)
    try:
        balancing = list(balancing_probabilities(f))
    except InputError:
        balancing = []
    return {
        "formula": formula,
        "support": list(found.support),
        "s": len(found.support),
        "symmetric": found.is_symmetric,
        "monotone": found.is_monotone,
        "degree": found.degree,
        "leap": leap(f, p),
        "sensitivity": found.sensitivity,
        "average_sensitivity": found.average_sensitivity,
        "p": p,
        "bias": bias(f, p),
        "balancing_p": balancing,
        "influences": {f"x{x}": value for x, value in found.influences.items()},
        "fourier": {_name(members): value for members, value in found.fourier.items()},
        "notes": list(f.notes),
    }


def _name(members: tuple[int, ...]) -> str:
    return " ".join(f"x{x}" for x in members) or "1"


def _render(report: dict[str, Any], console: Terminal) -> None:
    yes_or_no = {name: "yes" if report[name] else "no" for name in ("symmetric", "monotone")}
    counts = ("degree", "leap", "sensitivity", "average_sensitivity")
    coefficients = list(report["fourier"].items())
    rows = [
        ("support", ", ".join(f"x{x}" for x in report["support"]) or "empty (a constant)"),
        *yes_or_no.items(),
        *((name.replace("_", " "), f"{report[name]:g}") for name in counts),
        (f"P(f = 1) at p = {report['p']:g}", f"{report['bias']:.6g}"),
        (
            "p with P(f = 1) = 1/2",
            ", ".join(f"{p:.6g}" for p in report["balancing_p"]) or "no solution",
        ),
        *((f"influence of {name}", f"{value:g}") for name, value in report["influences"].items()),
        *(
            ("Fourier {} (mean)" if name == "1" else f"Fourier {{{name}}}", f"{value:g}")
            for name, value in coefficients[:_MOST_COEFFICIENTS]
        ),
    ]
    if len(coefficients) > _MOST_COEFFICIENTS:
        rows.append(("...", f"{len(coefficients)} coefficients in all, see --json"))
    console.table(rows, head=("property", "value"), title=report["formula"])


def register(app: typer.Typer) -> None:
    """Add `capax function` to the command line."""
    app.command()(function)
