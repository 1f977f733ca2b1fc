"""`capax compile "mean(...)"`: a head that averages its members."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from capax.cli.speaking.output import emit, note
from capax.errors import require

if TYPE_CHECKING:
    from capax.compiler.extensions.averages import AverageCertificate
    from capax.terminal import Terminal

DEFAULT_EPS = 0.01


def show_average(
    formula: str,
    T: int,
    alphabet: int,
    eps: float | None,
    out: Path | None,
    asked: dict[str, Any],
    json: bool,
) -> None:
    """Compile, certify, write the weights and print the certificate."""
    for option, value in asked.items():
        require(value is None, option, "no such option with mean(...)", value)
    from capax.compiler.extensions.averages import compile_average
    from capax.compiler.verified.average_file import save_average
    from capax.compiler.weights_file import check_destination

    if out is not None:
        check_destination(out)
    made = compile_average(formula, T, alphabet=alphabet, eps=DEFAULT_EPS if eps is None else eps)
    if out is not None:
        note(f"weights: {save_average(out, made)}")
    c = made.certificate
    emit(c.to_json(), json, lambda console: _show(console, c))


def _show(console: "Terminal", c: "AverageCertificate") -> None:
    by_symbol = isinstance(c.members, tuple)
    members = f"tokens that are {_listed(c.members)}" if by_symbol else f"{c.members} of {c.T}"
    inputs = f"all {c.alphabet}^{c.T} inputs" + (" with such a token" if by_symbol else "")
    rows = [
        ("function", c.function),
        ("T", str(c.T)),
        *([] if c.alphabet == 2 else [("alphabet", f"{c.alphabet} symbols")]),
        ("members", members),
        ("score of a member", f"{c.a:.6g}, of any other token 0"),
        ("error", f"at most {c.worst_case_error:.6g} on {inputs} (proved), wanted {c.eps:g}"),
        ("an input has", f"{c.attained_error:.6g}"),
        ("norms", ", ".join(f"{name} {size:.4g}" for name, size in c.norms.items())),
        ("statements", "; ".join(c.statements)),
    ]
    console.table(rows, title="certificate")


def _listed(symbols: Any) -> str:
    return " or ".join(map(str, symbols))
