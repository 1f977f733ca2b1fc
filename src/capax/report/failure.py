"""The section about failed runs: the rules they learnt instead."""

import re

from capax.analysis.tables.formulas import FailedRun, FailedRuns
from capax.decompile.anatomy import FAITHFUL, Kind
from capax.errors import counted
from capax.html import Markup, escaped
from capax.report.page import Section
from capax.report.page_tables import folded, paragraph, table
from capax.report.provenance import trace_link

MEANING: dict[Kind, str] = {
    "target": "the target, but not on every validation input",
    "too few bits": "only some of the target's bits",
    "too many bits": "all of the target's bits, and others that the sample does not rule out",
    "wrong bits": "some of the target's bits, and other bits",
    "other bits": "none of the target's bits",
    "another function": "the target's bits, another function of them",
    "constant": "always the same answer",
    "no short formula": f"no function of few bits agrees on {FAITHFUL:.0%} of inputs",
}


LONGEST = 48
"""Longest formula that is shown in full, in characters."""


def failure_section(found: FailedRuns, *, anchor: str) -> Section:
    """The kinds of failure and their counts, and every run that was decompiled."""
    read = f"{len(found.runs)} of them" if len(found.runs) < found.kept else "all of them"
    text = Markup(
        f"{counted(found.kept, 'run')} with kept models did not reach a perfect validation score. "
        f"Decompiled: {read}. The tables show which bits a model uses, and which function of them "
        "it computes. <code>capax decompile STORE --run RUN</code> gives the details of a run."
    )
    kinds = [
        [kind, MEANING[kind], count, found.fitting(kind), _example(found, kind)]
        for kind, count, _ in found.tally()
    ]
    headers = ["what it computes", "meaning", "runs", "fit their labels", "an example"]
    runs = table(
        ["T", "m", "what it computes", "formula", "agreement", "run"],
        "rrllrl",
        [_row(run) for run in found.runs],
    )
    html = paragraph(text) + table(headers, "llrrl", kinds) + folded("every run", runs)
    return Section(anchor, "Failures", "What did failed runs learn instead?", html)


def _row(run: FailedRun) -> list[object]:
    a, link = run.anatomy, trace_link(run.run_id[:8], {"text": run.run_id})
    return [run.T, run.m, a.kind, _shown(a.formula), f"{a.agreement:.1%}", link]


def _example(found: FailedRuns, kind: Kind) -> Markup:
    """The shortest formula of a kind; without an exact formula, the agreement of the best one."""
    own = [run.anatomy for run in found.runs if run.anatomy.kind == kind]
    if kind == "no short formula":
        return Markup(f"the nearest agrees on {max(a.agreement for a in own):.0%}")
    return _shown(min((a.formula for a in own), key=lambda formula: (len(formula), formula)))


def _shown(formula: str) -> Markup:
    """A formula; if it is too long to read, only its bits."""
    if len(formula) <= LONGEST:
        return Markup(f"<code>{escaped(formula)}</code>")
    bits = sorted(map(int, set(re.findall(r"\bx(\d+)\b", formula))))
    named = ", ".join(f"x{bit}" for bit in bits)
    return Markup(f"a function of {counted(len(bits), 'bit')}: <code>{escaped(named)}</code>")
