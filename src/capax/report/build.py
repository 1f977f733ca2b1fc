"""A report from stores: the parts that each store has data for, short findings, all runs."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from capax.analysis.reference.agreement import ReferenceAgreement
from capax.analysis.reference.threshold_curves import (
    ThresholdCurve,
    threshold_curves,
    threshold_panels,
)
from capax.analysis.tables.formulas import failed_runs
from capax.errors import counted, require
from capax.figures.experiments.parity_transition import ParityTransition
from capax.figures.experiments.threshold_comparison import NamedCurve
from capax.figures.experiments.threshold_scaling import ThresholdScaling
from capax.figures.stored.attention import attention_maps
from capax.figures.stored.curves import learning_curves, parity_transition
from capax.figures.stored.runs import panels_of
from capax.figures.stored.threshold_records import curve_scaling
from capax.files import write_atomically
from capax.report.failure import failure_section
from capax.report.page import Finding, Page, Section, render_page
from capax.report.provenance import StoreRecord, runs_section, settings_section, store_payload
from capax.report.records import store_record
from capax.report.sections import (
    attention_section,
    comparison_section,
    interval,
    learning_section,
    parity_section,
    threshold_section,
)
from capax.sweep.storage.store import Store

SMOKE = "smoke"  # the shipped experiment that only tests the installation
TITLE = "What self-attention needs to learn a sparse rule"


def report(*stores: str | Path, out: str | Path = "report.html") -> Path:
    """Write one self-contained HTML page from stores made by `capax sweep`; returns its path.

    Raises `InputError` if a store cannot be read or the page cannot be written.

    Examples:
        >>> import capax
        >>> try:
        ...     capax.report("nowhere.sqlite")
        ... except capax.InputError as error:
        ...     print(str(error).split(":")[0])
        nowhere.sqlite
    """
    write_report([Path(store) for store in stores], Path(out))
    return Path(out)


def write_report(
    stores: Sequence[Path],
    out: Path,
    *,
    first: Sequence[Section] = (),
    last: Sequence[Section] = (),
) -> Page:
    """Write the report of some stores to `out`; `first` and `last` are parts before and after."""
    page = build_page(stores, first=first, last=last)
    write_atomically(out, lambda file: file.write(render_page(page).encode()))
    return page


def build_page(
    stores: Sequence[Path], *, first: Sequence[Section] = (), last: Sequence[Section] = ()
) -> Page:
    """The page of some stores. Raises `InputError` without stores or for an unreadable one."""
    require(stores, "stores", "at least one store", list(stores))
    with ExitStack() as stack:
        opened = [stack.enter_context(Store.read(path)) for path in stores]
        records = _named_apart([store_record(store) for store in opened], stores)
        curves = _curves(opened, [record.name for record in records])
        sections = _comparison(curves)
        for record, store in zip(records, opened, strict=True):
            sections += _sections(store, record.name, curves)
        smoke = all(store.experiment.name == SMOKE for store in opened)
        parities = [parity_transition(s) for s in opened if panels_of(s, "transition")]
    provenance = (settings_section(records), runs_section(records))
    return Page(
        title=TITLE,
        lead=_lead(records, smoke=smoke),
        findings=(*_threshold_findings(curves), *_parity_findings(parities)),
        sections=(*first, *sections, *last, *provenance),
        stores=tuple(store_payload(record) for record in records),
        footer=f"Made by Capax {version('capax')}. Nothing on this page comes from the network.",
    )


@dataclass(frozen=True)
class ShownCurve:
    """A curve of the page: its numbers, its figure, and the store its trials are in."""

    curve: ThresholdCurve
    data: ThresholdScaling

    @property
    def trace(self) -> dict[str, str]:
        """Store and panel of the curve, to find its runs."""
        return {"store": self.curve.store, "panel": self.curve.panel.name}

    @property
    def anchor(self) -> str:
        words = "".join(c if c.isalnum() or c in "-_" else "-" for c in self.curve.name)
        return f"{words}-2"


def _curves(opened: Sequence[Store], names: Sequence[str]) -> list[ShownCurve]:
    """Every curve of every store, under the names of the command line."""
    if not any(threshold_panels(store) for store in opened):
        return []
    found = threshold_curves(opened, names=names)
    return [ShownCurve(curve, curve_scaling(curve)) for curve in found]


def _comparison(curves: list[ShownCurve]) -> list[Section]:
    """One picture and one table of all curves, if there are several."""
    named = [NamedCurve(shown.curve.name, shown.data) for shown in curves]
    traces = [shown.trace for shown in curves]
    return [comparison_section(named, traces)] if len(named) > 1 else []


def _sections(store: Store, name: str, curves: list[ShownCurve]) -> list[Section]:
    """The parts that one store has data for, in the order of the paper's figures."""
    sections = []
    for shown in curves:
        if shown.curve.store == name:
            title = shown.curve.name if len(curves) > 1 else ""
            sections.append(
                threshold_section(shown.data, trace=shown.trace, anchor=shown.anchor, name=title)
            )
    if panels_of(store, "curves"):
        data = learning_curves(store, thresholds=_known_thresholds(curves))
        sections.append(learning_section(data, anchor=f"{name}-3-left"))
    if panels_of(store, "attention"):
        sections.append(attention_section(attention_maps(store), anchor=f"{name}-3-right"))
    if panels_of(store, "transition"):
        sections.append(parity_section(parity_transition(store), anchor=f"{name}-4"))
    failures = failed_runs(store)
    if failures.runs:
        sections.append(failure_section(failures, anchor=f"{name}-failures"))
    return sections


def _known_thresholds(curves: list[ShownCurve]) -> dict[int, int]:
    return {
        point.T: point.m_star
        for shown in curves
        for point in shown.data.points
        if point.m_star is not None
    }


def _named_apart(records: list[StoreRecord], paths: Sequence[Path]) -> list[StoreRecord]:
    """Names of stores; a number is added to a name that occurs again."""
    names: list[str] = []
    for path in paths:
        stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(path).stem)
        number = sum(Path(other).stem == Path(path).stem for other in paths[: len(names)])
        names.append(stem if number == 0 else f"{stem}-{number + 1}")
    return [replace(record, name=name) for record, name in zip(records, names, strict=True)]


def _lead(records: Sequence[StoreRecord], *, smoke: bool) -> str:
    runs = sum(record.total for record in records)
    if smoke:
        return (
            f"A smoke test: {counted(runs, 'small training run')} on this machine. The runs test "
            "the installation; they are too few and too small for conclusions about the paper."
        )
    return (
        "The experiments of “Inductive Biases and Variable Creation in Self-Attention Mechanisms” "
        f"(Edelman, Goel, Kakade, Zhang), repeated in {counted(runs, 'training run')}. Every "
        "number links to its runs."
    )


def _threshold_findings(curves: list[ShownCurve]) -> list[Finding]:
    findings = []
    for shown in curves:
        data, name = shown.data, f"{shown.curve.name}: " if len(curves) > 1 else ""
        last = [point for point in data.points if not point.reference][-1]
        known = last.status if last.status != "closed" else interval(last.low, last.high)
        meaning = f"{name}examples for 80% success at T = {last.T}, 95% interval {known}"
        value = "no m*" if last.m_star is None else f"m* = {last.m_star}"
        findings.append(Finding(value, meaning))
        if data.laws:
            law = _law_finding(data)
            findings.append(Finding(law.value, name + law.meaning))
        if shown.curve.agreement is not None:
            findings.append(_agreement_finding(name, shown.curve.agreement))
    return findings


def _agreement_finding(name: str, agreement: ReferenceAgreement) -> Finding:
    """Whether the curve agrees with the results of others, labelled as such."""
    compared = (*agreement.rows, *([agreement.published] if agreement.published else []))
    agrees = all(one.agrees for one in compared)
    value = "agrees" if agrees and compared else "not compared" if not compared else "differs"
    return Finding(value, f"{name}{agreement.verdict}")


def _law_finding(data: ThresholdScaling) -> Finding:
    """The only law that is not ruled out, or a note that no law or several laws remain."""
    out = [law.name for law in data.laws if law.ruled_out]
    ruled = f"ruled out: {', '.join(out)}" if out else "no law is ruled out"
    if data.status == "settled":
        return Finding(data.laws[0].name, f"is the only law of m* that is not ruled out; {ruled}")
    if data.status == "none fits":
        return Finding("no law fits", "every law of m* is refuted by the trials")
    named = ", ".join(f"{law.name} {law.weight:.2f}" for law in data.laws if not law.ruled_out)
    return Finding("law not settled", f"weights: {named}; {ruled}")


def _parity_findings(parities: Sequence[ParityTransition]) -> list[Finding]:
    return [
        Finding(f"{len(panel.solved_steps)} of {len(panel.runs)}", f"parity seeds at T = {panel.T}")
        for parity in parities
        for panel in parity.panels
    ]
