"""`capax verify`: recompute a certificate from the weights alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit

if TYPE_CHECKING:
    from capax.compiler import Claim, Verification
    from capax.terminal import Terminal

WIDEST = 44
STYLES = {"proved": "", "refuted": "bold red", "unproved": "bold red", "stated": "dim"}
SHOWN_STATUS = {"stated": "stated, not checked"}
GROUPS = ("norms", "paper_bounds", "sample_size", "capacity")
"""Claims with many parts: one line when all of them are proved."""


def verify_command(
    weights: Annotated[Path, typer.Argument(help="File written by capax compile.")],
    json: JsonFlag = False,
) -> None:
    """Check a compiled network against its certificate; exit code 1 unless every claim is proved.

    Every field is recomputed from the weights alone, in real arithmetic with all rounding errors
    accounted for. `--json` lists per claim: claimed, recomputed (an interval), status (proved,
    refuted, unproved, or stated: not checked).

    Example: `capax verify weights.safetensors`
    """
    from capax.reading import existing

    existing(weights, "a weights file")
    from capax.compiler import verify

    verdict = verify(weights)
    emit(verdict.to_json(), json, lambda console: show_verdict(console, verdict))
    if not verdict.ok:
        raise typer.Exit(1)


def show_verdict(console: "Terminal", verdict: "Verification") -> None:
    """Every claim beside the recomputed number; the failed ones first and in red.

    Names and texts come from the file: they are printed as they are, never as markup.
    """
    title = f"{_text(verdict.path)}: {_text(verdict.function)}, T = {verdict.T}"
    checked = [claim for claim in verdict.claims if claim.status == "proved"]
    told = [c for c in verdict.claims if c.status == "stated" and c.claimed not in (None, [])]
    single = [claim for claim in checked if "." not in claim.name and claim.name not in GROUPS]
    rows = [(_cells(claim), STYLES[claim.status]) for claim in (*verdict.failed, *single)]
    for group in GROUPS:
        size = sum(claim.name.split(".")[0] == group for claim in checked)
        if size:
            rows.append(((group, f"{size} numbers and names", "the same", "proved"), ""))
    rows += [(_cells(claim), "dim") for claim in told]
    head = ("claim", "in the file", "from the weights", "status")
    styles = [style for _, style in rows]
    console.table([cells for cells, _ in rows], head=head, title=title, styles=styles)
    for line in _summary(verdict):
        console.print(line)
    if verdict.ok:
        line = f"ok: {len(checked)} claims proved for all {verdict.alphabet}^{verdict.T} inputs"
        aside = f"; {len(told)} stated, not checked" if told else ""
        console.print(line + aside, style="green")
    else:
        names = ", ".join(_text(claim.name) for claim in verdict.failed[:4])
        more = f" and {len(verdict.failed) - 4} more" if len(verdict.failed) > 4 else ""
        console.print(f"NOT OK: {names}{more}", style="bold red")


def _summary(verdict: "Verification") -> list[str]:
    """The method, the arithmetic, and the margin that is left in float32."""
    low, high = verdict.attacked_error, verdict.worst_case_error
    lines = [
        f"method: {verdict.method}; arithmetic: {verdict.arithmetic}",
        f"worst-case error between {low:.6g} (an actual input) and {high:.6g} (proved)",
    ]
    single = verdict.float32
    if single is None:
        return [*lines, "float32 forward pass: not examined for this kind of network"]
    kept = "no decisions" if verdict.margin is None else f"margin {_text(single.margin)}"
    fate = "" if single.decided or verdict.margin is None else " (its decisions are not proved)"
    return [*lines, f"float32 forward pass: {kept}, error at most {single.error:.6g}{fate}"]


def _cells(claim: "Claim") -> tuple[str, str, str, str]:
    found = "" if claim.status == "stated" else _text(claim.recomputed)
    return _text(claim.name), _claimed(claim), found, SHOWN_STATUS.get(claim.status, claim.status)


def _claimed(claim: "Claim") -> str:
    relation = {"<=": "<= ", ">=": ">= "}.get(claim.relation, "")
    return relation + _text(claim.claimed)


def _text(value: Any) -> str:
    """One short printable line; unprintable characters are shown by their codes."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, list | tuple) and value and all(isinstance(x, float) for x in value):
        low, high = f"{value[0]:.9g}", f"{value[-1]:.9g}"
        return low if low == high and len(value) == 2 else f"[{', '.join(map(_text, value))}]"
    if isinstance(value, list | tuple) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify_command)
