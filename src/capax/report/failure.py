"""What failed runs had learnt instead: the anatomy of failure, as a part of the page."""

from capax.analysis.formulas import FailedRun, FailedRuns
from capax.decompile.anatomy import FAITHFUL, Kind
from capax.report.page import Section
from capax.report.provenance import trace_link
from capax.report.tables import Markup, escaped, folded, paragraph, table

MEANING: dict[Kind, str] = {
    "target": "the target's formula, but not on every validation input",
    "too few bits": "some of the target's bits only",
    "too many bits": "all of the target's bits, and others that the sample did not rule out",
    "wrong bits": "some of the target's bits, and others",
    "other bits": "none of the target's bits",
    "another function": "the target's bits, another function of them",
    "constant": "the same answer always",
    "no short formula": f"no function of few bits agrees on {FAITHFUL:.0%} of inputs",
}


def failure_section(found: FailedRuns, *, anchor: str) -> Section:
    """The kinds of failure with how often they occur, and every run that was read."""
    read = f"{len(found.runs)} of them" if len(found.runs) < found.kept else "all of them"
    text = (
        f"{found.kept} runs with kept models did not reach a perfect validation score; {read} were "
        "decompiled: which bits the model uses, and which function of them it computes."
    )
    kinds = [
        [kind, MEANING[kind], count, found.fitting(kind), _code(example)]
        for kind, count, example in found.tally()
    ]
    headers = ["what it computes", "meaning", "runs", "fit their labels", "an example"]
    runs = table(
        ["T", "m", "what it computes", "formula", "agreement", "run"],
        "rrllrl",
        [_row(run) for run in found.runs],
    )
    html = paragraph(text) + table(headers, "llrrl", kinds) + folded("every run", runs)
    return Section(anchor, "Failures", "What had failed runs learnt instead?", html)


def _row(run: FailedRun) -> list[object]:
    a, link = run.anatomy, trace_link(run.run_id[:12], {"text": run.run_id})
    return [run.T, run.m, a.kind, _code(a.formula), f"{a.agreement:.1%}", link]


def _code(formula: str) -> Markup:
    """A formula, cut where it is long."""
    shown = formula if len(formula) <= 90 else f"{formula[:87]}..."
    return Markup(f"<code>{escaped(shown)}</code>")
