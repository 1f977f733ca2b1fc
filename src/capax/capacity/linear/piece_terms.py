"""The contributions of a network's pieces to its cover, written out with their numbers."""

import math
from collections.abc import Sequence

from capax.capacity.bound import Term
from capax.capacity.linear.cover_pieces import Piece, Total, Way
from capax.capacity.linear.structured_covers import log_rank_count, log_volume_count
from capax.capacity.magnitude import number_latex, safe_log, shown, shown_latex


def terms_of(pieces: Sequence[Piece], total: Total) -> tuple[Term, ...]:
    """The contributions of a total as printable terms, each with its scale and its share of eps."""
    return tuple(
        Term(piece.name, part, *_written(piece, log_eps, way))
        for piece, part, log_eps, way in zip(
            pieces, total.parts, total.log_eps, total.ways, strict=True
        )
    )


def _written(piece: Piece, log_eps: float, way: Way) -> tuple[str, str]:
    """The formula of one contribution with its numbers, in plain text and in LaTeX."""
    if log_eps == math.inf:
        return "0 (needs no cover)", "0"
    if way == "parameters":
        return _counted(piece, log_eps)
    if way == "entries":
        scale, n = piece.log_scale_entries, piece.num_parameters
        text = f"||.||_1,1 B = {shown(scale, 3)} at eps_i = {shown(log_eps, 3)} on {n} entries"
        return text, rf"\ln D\left({n}, \lceil({shown_latex(scale - log_eps, 3)})^2\rceil\right)"
    return _by_norm(piece.frobenius() if way == "frobenius" else piece, log_eps, piece)


def _counted(piece: Piece, log_eps: float) -> tuple[str, str]:
    """n ln(1 + 2 a / e), or n ln(1 + 6 a / e) if low rank is the cheaper count."""
    log_ratio = piece.log_size - piece.log_covered_at(log_eps)
    n, factor, counted = piece.num_parameters, 2, ""
    r = piece.rank_parameters
    if n is None or (r and log_rank_count(r, log_ratio) < log_volume_count(n, log_ratio)):
        n, factor, counted = r, 6, " (by rank)"
    size, eps = shown(piece.log_size, 3), shown(log_eps, 3)
    inside = rf"{factor} \cdot {shown_latex(piece.log_size, 3)} / {shown_latex(log_eps, 3)}"
    return (
        f"{n} ln(1 + {factor} * {size} / {eps}){counted}",
        rf"{n} \ln\left(1 + {inside}\right)",
    )


def _by_norm(seen: Piece, log_eps: float, piece: Piece) -> tuple[str, str]:
    ratio, eps = seen.log_scale - log_eps, shown(log_eps, 3)
    outputs = "" if seen.outputs is None else f", k = {seen.outputs}"
    symbol, latex_symbol = piece.text, piece.latex or r"\text{norm}"
    if seen is not piece:  # by its Frobenius norm
        symbol, latex_symbol = "sqrt(k) ||.||_F B", r"\sqrt k\|\cdot\|_F B"
    name = f"{symbol} = " if symbol else ""
    points = shown(safe_log(float(seen.num_points)), 3)
    text = f"{name}{shown(seen.log_scale, 3)} at eps_i = {eps} on N = {points} points{outputs}"
    at = rf"N = {number_latex(float(seen.num_points), 3)},\ {latex_symbol}/\epsilon_i = "
    latex = (
        rf"\ln D\left(N, \left({latex_symbol}/\epsilon_i\right)^2\right)"
        rf"\Big|_{{{at}{shown_latex(ratio, 3)}}}"
    )
    return text, latex
