"""The output of `capax bound`: the headline, the table of all routes, the table of heads."""

import math
from typing import TYPE_CHECKING, Any

from capax.cli.speaking.output import note
from capax.terminal import Terminal

if TYPE_CHECKING:
    from capax.capacity.bound import Bound
    from capax.capacity.certificates.error_certificate import ErrorCertificate

SHOWN_ROWS = 24
NO_MARGIN = "no error bound: the output is a vector, a margin needs one number per sequence"


def render(
    answer: "ErrorCertificate | Bound", payload: dict[str, Any], explain: bool, console: Terminal
) -> None:
    """The whole answer for a person; `explain` writes the best bound out instead of the table."""
    from capax.capacity.bound import Bound

    if isinstance(answer, Bound):
        _render_cover(answer, explain, console)
    else:
        _render_certificate(answer, payload["target"], explain, console)
    if "heads" in payload:
        _render_heads(payload["heads"], console)
    if "log_cover_compared" in payload:
        _render_compared(payload["log_cover_compared"], console)
    if "decision" in payload:
        console.print(f"decision: {payload['decision']}")
    for check in payload.get("applies", ()):
        text = check["detail"] if check["holds"] else f"{check['text']} ({check['detail']})"
        console.print(f"applies to {payload['kind_of_model']}: {text}")
    if "plot" in payload:
        console.print(f"picture written to {payload['plot']}")


def _render_compared(compared: dict[str, Any], console: Terminal) -> None:
    """Our cover beside the one with the paper's constants: 36, C_Norm = 2, (2,1) norms."""
    from capax.capacity.magnitude import LN_10, shown

    ours, paper = (compared[f"log10_{name}"] * LN_10 for name in ("ours", "paper"))
    if not math.isfinite(ours):
        return
    console.print(
        f"cover at eps = {compared['eps']:g}: ln N <= {shown(ours)} here, {shown(paper)} with the "
        f"paper's constants, {shown(paper - ours)} times as much"
        + ("" if compared["W_QK_T_21_given"] else " (W_QK_T_21 taken as sqrt(d) W_QK)")
    )


def _render_cover(cover: "Bound", explain: bool, console: Terminal) -> None:
    """A class whose output is a vector: only the size of its cover is printed."""
    first = f"ln N <= {cover.verdict} at eps = {cover.norms['eps']:g} [{cover.status}]"
    console.print(first, style="bold")
    console.print(cover.explain() if explain else cover.statement)
    console.print(NO_MARGIN)


def _render_certificate(
    certificate: "ErrorCertificate", target: float, explain: bool, console: Terminal
) -> None:
    """Headline, routes and the m that they need; --explain prints the same routes in full."""
    best = certificate.best
    same = [entry for entry in certificate.entries if entry.predictor == best.predictor]
    quickest = min(
        (entry for entry in same if entry.m_needed is not None),
        key=lambda entry: entry.m_needed or 0,
        default=None,
    )
    if explain:
        console.print(certificate.explain())
        if quickest is not None and quickest is not best:
            console.print(f"\nthe route of the m below: {quickest.explain()}")
    else:
        _render_summary(certificate, console)
    if quickest is not None:
        text = f"error <= {target:g} from m = {_count(quickest)} on, by the {_short(quickest)}"
        console.print(text)


def _count(bound: "Bound") -> str:
    m = bound.m_needed or 0
    return f"{m:.3g}" if m > 10**15 else f"{m:,}".replace(",", " ")


def _short(bound: "Bound") -> str:
    return bound.statement.split(" with ")[0]


def _render_summary(certificate: "ErrorCertificate", console: Terminal) -> None:
    console.print(certificate.headline(), style="bold")
    _render_routes(certificate, console)
    common = _common(certificate)
    if common:
        text = f"all rows assume: {'; '.join(common)}"
        console.print(text)
    for text in _refuted(certificate):
        console.print(f"NOT TRUE: {text}; bounds with this assumption do not hold")
    for route in certificate.skipped:
        console.print(f"no bound: {route}")
    price = certificate.conditioning
    if price is not None:
        text = (
            f"{price.accepted} of {price.tries} training sets accepted: P(accepted) >= "
            f"{price.alpha:.3g} at delta = {price.delta:.3g}; {price.cost:.2f} nats for every "
            f"route on the training set"
        )
        console.print(text)
    best = certificate.best
    if best.dominant is not None:
        parts = max(best.dominant.parts, key=lambda part: part.log_value, default=None)
        inside = "" if parts is None else f", in it {parts.name}"
        console.print(f"dominant term: {best.dominant.name}{inside}")


def _render_routes(certificate: "ErrorCertificate", console: Terminal) -> None:
    """One row per route: value, predictor, share of delta, assumptions."""
    from capax.capacity.magnitude import safe_log, shown

    common, rows = _common(certificate), []
    for entry in certificate.entries:
        needed = "" if entry.m_needed is None else shown(safe_log(float(entry.m_needed)))
        assumed = "; ".join(text for text in _assumed(entry) if text not in common)
        share = "" if entry.delta is None else f"{entry.delta:.3g}"
        cells = (_short(entry), entry.verdict, entry.status, entry.predictor, share, needed)
        rows.append((*cells, assumed))
    head = ("route", "error <=", "status", "error of", "delta", "m needed", "assumes")
    console.table(rows, head=head, align="lrllrrl")


def _assumed(entry: "Bound") -> list[str]:
    """Assumptions that were not checked, or that were checked and fail."""
    return [f"{'NOT TRUE: ' * (a.holds is False)}{a.text}" for a in entry.assumptions
            if a.holds is not True]  # fmt: skip


def _refuted(certificate: "ErrorCertificate") -> list[str]:
    """Assumptions that were checked and fail, each once."""
    texts = [a.text for entry in certificate.entries for a in entry.assumptions if a.holds is False]
    return list(dict.fromkeys(texts))


def _common(certificate: "ErrorCertificate") -> list[str]:
    """Assumptions of every row, in the order of the first."""
    first, *others = (_assumed(entry) for entry in certificate.entries)
    return [text for text in first if all(text in other for other in others)]


def _render_heads(rows: list[dict[str, Any]], console: Terminal) -> None:
    names = ("layer", "head", "W_QK_F", "W_QK_2", "W_VO_F", "W_VO_2", "W_VO_21", "log10_capacity")
    cells = [
        [f"{row[n]:.4g}" if isinstance(row[n], float) else row[n] for n in names]
        for row in rows[:SHOWN_ROWS]
    ]
    console.table(cells, head=names, align="r" * len(names))
    if len(rows) > SHOWN_ROWS:
        note(f"{SHOWN_ROWS} of {len(rows)} heads shown; --json has all")
