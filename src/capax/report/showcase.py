"""Parts of the report that need no store: the diagram, a compiled function, a bound explained."""

from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.compiler import Certificate, Verification
from capax.figures.heads.attention_diagram import draw_attention_diagram
from capax.html import tag
from capax.report.page import Section
from capax.report.page_tables import facts, paragraph, preformatted, table
from capax.report.vector import inline_pair


def diagram_section() -> Section:
    """Figure 1: the three modules, with computed scores and weights."""
    text = (
        "Alignment scores (grey) become normalized attention weights (blue), which mix the inputs. "
        "Left: a head with a general context. Centre: a self-attention layer. Right: a [CLS] token "
        "that extracts one scalar."
    )
    light, dark = draw_attention_diagram(), draw_attention_diagram(dark=True)
    html = paragraph(text) + tag("div", inline_pair(light, dark, "figure-1"), "picture")
    return Section("figure-1", "Figure 1", "What an attention head computes", html)


def compiled_section(certificate: Certificate, verification: Verification) -> Section:
    """A compiled formula: its certificate, and the verification from the weights alone."""
    wrong = certificate.wrong_decisions
    promises = {
        "function": certificate.function,
        "T, s, d": f"{certificate.T}, {certificate.s}, {certificate.d}",
        "construction": f"{certificate.family}, {certificate.encoding} encoding",
        "wrong decisions": "not applicable" if wrong is None else f"{wrong} of 2^{certificate.T}",
        "margin": "none" if certificate.margin is None else f"{certificate.margin:.6g}",
        "output": f"within {certificate.worst_case_error:.6g} of its target on all inputs",
        "based on": "; ".join(certificate.statements),
        "verified": _verified(verification),
    }
    norms = [
        [name, *(f"{row[norm]:.4g}" for norm in ("frobenius", "spectral", "norm_2_1"))]
        for name, row in certificate.norms.items()
    ]
    html = (
        paragraph("No training: the weights and the certificate are computed from the formula.")
        + facts(promises)
        + table(["matrix", "Frobenius", "spectral", "(2,1)"], "lrrr", norms)
    )
    return Section("compiled", "Compiled function", "A formula as attention weights", html)


def _verified(verification: Verification) -> str:
    proved = sum(claim.status == "proved" for claim in verification.claims)
    if verification.ok:
        return f"yes: {proved} claims proved from the weights alone ({verification.method})"
    failed = ", ".join(claim.name for claim in verification.failed)
    return f"NO: {failed} not proved, {proved} claims proved"


def bound_section(certificate: ErrorCertificate, *, m: int, what: str) -> Section:
    """One generalization bound, written out with its numbers."""
    best = certificate.best
    needed = "" if best.m_needed is None else f" Its target needs m = {best.m_needed:.4g}."
    verdict = (
        f"With probability {1 - certificate.delta:g} over {m} examples, the error of {what} is at "
        f"most {best.verdict}.{needed}"
    )
    html = paragraph(verdict, "verdict") + preformatted(certificate.explain())
    return Section("bound", "Bound", "How much can such a head get wrong?", html)
