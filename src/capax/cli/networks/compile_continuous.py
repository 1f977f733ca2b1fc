"""`capax compile --continuous`: a piecewise-linear function of numbers in [0, 1]."""

from typing import TYPE_CHECKING, Any

from capax.cli.speaking.output import emit
from capax.errors import require

if TYPE_CHECKING:
    from capax.compiler.extensions.continuous import ContinuousCertificate
    from capax.terminal import Terminal

DEFAULT_EPS = 0.01


def show_continuous(
    formula: str, T: int, eps: float | None, asked: dict[str, Any], json: bool
) -> None:
    """Compile, certify and print; nothing is written."""
    for option, value in asked.items():
        require(value is None, option, "no such option with --continuous", value)
    from capax.compiler.extensions.continuous import compile_continuous

    made = compile_continuous(formula, T, eps=DEFAULT_EPS if eps is None else eps)
    c = made.certificate
    emit(c.to_json(), json, lambda console: _show(console, c))


def _show(console: "Terminal", c: "ContinuousCertificate") -> None:
    rows = [
        ("function", c.function),
        ("T, s", f"{c.T}, {c.s}"),
        ("inputs", f"every point of [0, 1]^{c.T}"),
        ("heads", f"{c.heads}, each selects one number within {c.eta:.4g}; a = {c.a:.4g}"),
        ("ReLU units", str(c.units)),
        ("error", f"at most {c.worst_case_error:.6g} (proved), wanted {c.eps:g}"),
        ("norms of a head", "W_Q {W_Q_F:.4g}, W_K {W_K_F:g}, W_V {W_V_F:g}".format(**c.norms)),
        ("statements", "; ".join(c.statements)),
    ]
    console.table(rows, title="certificate")
