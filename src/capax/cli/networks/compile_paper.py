"""`capax compile --method paper`: the network of Appendix B, proved, and beside it ours."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from capax.cli.speaking.output import emit, note
from capax.errors import require

if TYPE_CHECKING:
    from capax.compiler.paper.paper_method import PaperCertificate
    from capax.terminal import Terminal


def show_paper(
    formula: str,
    T: int,
    choice: tuple[str, str, int | None],
    out: Path | None,
    asked: dict[str, Any],
    json: bool,
) -> None:
    """Compile by the paper's method, print certificate and comparison, write weights to `out`.

    `choice`: encoding, family, and length of the codes.
    """
    for option, value in asked.items():
        require(value is None, option, "no such option with --method paper", value)
    encoding, family, dim = choice
    families = ("auto", "symmetric", "general")
    require(family in families, "family", f"one of {', '.join(families)} for the paper", family)
    from capax.compiler.paper.paper_file import save_paper
    from capax.compiler.paper.paper_method import compile_paper, side_by_side
    from capax.compiler.weights_file import check_destination

    if out is not None:
        check_destination(out)
    made = compile_paper(formula, T, encoding=encoding, family=family, dim=dim)
    both = side_by_side(made)
    if out is not None:
        note(f"weights: {save_paper(out, made)}")
    content = {**made.certificate.to_json(), "comparison": both}
    emit(content, json, lambda console: _show(console, made.certificate, both))


def _show(console: "Terminal", c: "PaperCertificate", both: dict[str, dict[str, Any]]) -> None:
    promised = [
        ("function", c.function),
        ("T, s", f"{c.T}, {c.s}"),
        ("encoding", f"{c.encoding}, coherence {c.Delta:.4g}"),
        ("lemmas", " and ".join(c.lemmas)),
        ("heads", f"{c.heads}, R = {c.R:.4g}, gamma = {c.gamma:.4g}"),
        ("widths", f"{c.widths[0]} and {c.widths[1]} ReLU units"),
        ("error of the heads", f"{c.head_error:.6g}, allowed gamma/4 = {c.gamma / 4:.6g}"),
        ("worst-case error", f"{c.worst_case_error:.6g} over all 2^{c.T} inputs"),
        ("margin", "none (real-valued)" if c.margin is None else f"{c.margin:.6g}"),
    ]
    console.table(promised, title="the paper's network")
    rows = [(name, f"{n['built']:.4g}", f"{n['allowed']:.4g}") for name, n in c.norms.items()]
    console.table(rows, head=("matrix", "built", "allowed by the lemma"), title="norms")
    names = [name for name in both["paper"] if name != "m"]
    lines = [(n, *(_text(both[who][n]) for who in ("paper", "ours"))) for n in names]
    by_paper, by_us = both["paper"]["m"], both["ours"]["m"]
    lines += [(f"m by {r}", _text(by_paper.get(r)), _text(m)) for r, m in by_us.items()]
    console.table(lines, head=("", "paper", "ours"), title="beside ours")


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
