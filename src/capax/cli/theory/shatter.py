"""`capax shatter`: Proposition 4.4, built, proved and drawn."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import DarkFlag
from capax.terminal import Terminal


def shatter(
    T: Annotated[
        int, typer.Option("-T", "--length", help="Context length, a power of two: 2, 4, 8, ...")
    ],
    norm: Annotated[
        float | None, typer.Option(help="Length of the key vectors. Default: the paper's T^2.")
    ] = None,
    margin: Annotated[
        float, typer.Option(help="The margin that `smallest_norm` must reach, below 1/2.")
    ] = 0.25,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the patterns (.png, .svg or .pdf).")
    ] = None,
    dark: DarkFlag = False,
    json: JsonFlag = False,
) -> None:
    """Shatter log2 T inputs by T heads of width 3, and prove every sign with outward rounding.

    Example: `capax shatter -T 1024`
    """
    from capax.statements.forms.head_shattering import (
        corollary_at,
        corollary_by_norms,
        smallest_norm,
    )
    from capax.statements.forms.head_shattering import shatter as prove

    check_destinations(picture=plot)
    found = prove(T, norm)
    smallest = smallest_norm(T, margin)
    eps = 0.99 * found.margin if found.margin > 0 else None
    result: dict[str, Any] = {
        "T": T,
        "inputs": found.inputs,
        "patterns": found.patterns,
        "verified": found.verified,
        "norm": found.norm,
        "margin": found.margin,
        "smallest_norm": smallest,
        "smallest_norm_margin": margin,
        "log_patterns": math.log(T),
        "corollary_4_5": None if eps is None else corollary_at(T, found.norm, eps),
        "corollary_4_5_by_norms": None if eps is None else corollary_by_norms(T, found.norm, eps),
    }
    if plot is not None:
        from capax.figures.style import save
        from capax.figures.theory.sign_patterns import draw_sign_patterns

        note(f"picture: {save(draw_sign_patterns(found, smallest, dark=dark), plot)}")
    emit(result, json, lambda console: _show(console, result))
    if not found.verified:
        raise typer.Exit(1)


def _show(console: Terminal, r: dict[str, Any]) -> None:
    console.print(f"{r['inputs']} inputs of {r['T']} tokens in R^3, {r['T']} heads")
    word = "all proved" if r["verified"] else "NOT all proved; give a larger --norm"
    console.print(f"sign patterns      {r['patterns']} of {r['T']}, {word}")
    console.print(
        f"norm               {r['norm']:.6g}: every output clears 1/2 by {r['margin']:.6g}"
    )
    share = r["smallest_norm"] / r["T"] ** 2
    console.print(
        f"smallest norm      {r['smallest_norm']:.6g} = {share:.4f} T^2 for a margin of "
        f"{r['smallest_norm_margin']:g}; without a margin every norm > 0 has all patterns"
    )
    console.print(f"ln of the patterns {r['log_patterns']:.4g}")
    if r["corollary_4_5"] is not None:
        by_norms, ours = r["corollary_4_5_by_norms"], r["corollary_4_5"]
        console.print(f"Corollary 4.5      ln N <= {by_norms:.4g} by norms, as the paper counts")
        console.print(f"                   ln N <= {ours:.4g} where three parameters are counted")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(shatter)
