"""`capax influence`: Hahn's limit, measured, bounded and drawn."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import DarkFlag
from capax.errors import require

if TYPE_CHECKING:
    from capax.terminal import Terminal

MAX_T = 10**6


def influence(
    T: Annotated[
        int, typer.Option("-T", "--length", help="The largest context length of the table.")
    ] = 100_000,
    scores: Annotated[
        float, typer.Option(help="S of the constant norm: scores lie in [-S, S].")
    ] = 1.0,
    margin: Annotated[
        float, typer.Option(help="The margin that `smallest_score` must allow, below 1.")
    ] = 0.25,
    function: Annotated[
        str, typer.Option(help="A threshold of bits, compiled at each length and measured.")
    ] = "x0 & x1 & x2",
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the table (.png, .svg or .pdf).")
    ] = None,
    dark: DarkFlag = False,
    json: JsonFlag = False,
) -> None:
    """The influence of one token on a head: 1/T at constant norm, constant at norms of order log T.

    Every length has the bound, a head that attains it, and a compiled head measured over all
    inputs, at its own norm and at the norm that it has at T = 10.

    Example: `capax influence -T 100000 --plot influence.png`
    """
    from capax.boolean.parser import parse

    check_destinations(picture=plot)
    require(10 <= T <= MAX_T, "T", f"an integer in 10..{MAX_T}", T)
    parse(function, 10)  # an error in it is reported before slow imports
    from capax.statements.forms.token_influence import influence_against_length

    rows = influence_against_length(_lengths(T), S=scores, margin=margin, function=function)
    if plot is not None:
        from capax.figures.style import save
        from capax.figures.theory.influence_curves import draw_influence

        note(f"picture: {save(draw_influence(rows, function, margin, dark=dark), plot)}")
    result = {
        "function": function,
        "scores": scores,
        "margin": margin,
        "rows": [row.to_json() for row in rows],
    }
    emit(result, json, lambda console: _show(console, result))


def _lengths(T: int) -> list[int]:
    """10, 100, ... and T itself."""
    powers = [10**n for n in range(1, 7) if 10**n < T]
    return [*powers, T]


def _show(console: "Terminal", result: dict[str, Any]) -> None:
    head = ("T", "bound", "attained", "at (1/2) ln T", f"S for {result['margin']:g}",
            "norm", "influence", "at first norm", "bound there")  # fmt: skip
    rows = []
    for r in result["rows"]:
        own, first = r["compiled"], r["compiled_at_first_norm"]
        numbers = (
            r["constant_bound"], r["constant_attained"], r["log_attained"], r["smallest_score"],
            r["norm"], own["measured"], first["measured"], first["bound"],
        )  # fmt: skip
        rows.append((str(r["T"]), *(f"{x:.4g}" for x in numbers)))
    title = f"influence of one token; scores in [-S, S], S = {result['scores']:g}"
    console.table(rows, head=head, align="r" * len(head), title=title)
    console.print(f"the last four columns: the compiled head of {result['function']}")
    console.print("constant norms: the influence falls as 1/T; norms of order log T keep it")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(influence)
