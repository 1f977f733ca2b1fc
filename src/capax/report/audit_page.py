"""The audit of a checkpoint as one page: facts, every head, maps, growth of n95, comparisons."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from capax.audit.auditing import READINGS, Audit
from capax.audit.text.telling import reading_in_words
from capax.figures.heads.audit_heatmaps import available, draw_head_maps
from capax.files import write_atomically
from capax.html import escaped, tag
from capax.report.charts import Chart
from capax.report.page import Finding, Page, Section, chart_frame, render_page
from capax.report.page_tables import facts, folded, paragraph, table
from capax.report.telling_section import telling_section
from capax.report.vector import inline_pair

# Two tables with short headings: one with all columns is wider than any screen.
HEAD_TABLES = {
    "On this text": {
        "kind": "kind", "loss_difference": "loss", "loss_difference_low": "from",
        "loss_difference_high": "to", "n95": "n95", "n95_exponent": "exponent",
        "n95_exponent_low": "low", "n95_exponent_high": "high",
        "n95_exponent_shuffled": "shuffled", "n95_exponent_random": "random",
        "effective_tokens": "effective", "first_token_share": "first", "mean_distance": "distance",
    },
    "From the weights": {
        "W_QK_F": "W_QK F", "ratio_to_random": "to random", "W_QK_2": "W_QK 2",
        "stable_rank": "rank", "W_VO_2": "W_VO 2", "W_VO_21": "W_VO 2,1",
        "score_radius": "radius", "W_QK_F_max": "F max", "D_max": "at D",
        "capacity_share": "share",
    },
}  # fmt: skip
Comparisons = Sequence[Mapping[str, Any]]


def write_audit_page(found: Audit, comparisons: Comparisons, path: Path | str) -> Path:
    """Write the page whole or not at all."""
    html = render_page(audit_page(found, comparisons))
    return write_atomically(path, lambda file: file.write(html.encode()))


def audit_page(found: Audit, comparisons: Comparisons = ()) -> Page:
    """The page of one audit and its comparisons."""
    first = [telling_section(found)] if found.text is not None else []
    text = [_kinds_section(found), _growth_section(found)] if found.text is not None else []
    against = [_comparison_section(comparisons)] if comparisons else []
    name = Path(found.path).parent.name if Path(found.path).stem in (
        "model", "pytorch_model", "state_dict") else Path(found.path).name  # fmt: skip
    return Page(
        title=f"Audit of {name}",
        lead=f"{found.facts.family}: the capacity of each of {len(found.rows)} attention heads"
        + (", and its behaviour on a text." if found.text is not None else "."),
        findings=tuple(_findings(found)),
        sections=(
            *first,
            _facts_section(found),
            *text,
            *against,
            _maps_section(found),
            _table_section(found),
        ),
        stores=(),
        footer=f"Made by Capax {version('capax')}. Nothing on this page comes from the network.",
    )


def _findings(found: Audit) -> list[Finding]:
    this = found.facts
    findings = [Finding(f"{this.layers} × {this.heads}", "layers and heads, according to the file")]
    ratios = [row["ratio_to_random"] for row in found.rows if row["ratio_to_random"] is not None]
    if ratios:
        findings.append(Finding(f"{median(ratios):.3g}", "median ratio to random initialisation"))
    exponents = [row["n95_exponent"] for row in found.rows if row.get("n95_exponent") is not None]
    if exponents:
        base = [row["n95_exponent_random"] for row in found.rows]
        meaning = f"median exponent of n95(T); random weights {median(base):.2f}"
        findings.append(Finding(f"{median(exponents):.2f}", meaning))
    return findings


def _facts_section(found: Audit) -> Section:
    this = found.facts
    pairs = {
        "file": found.path,
        "format": found.format,
        "family": this.family,
        "layers, heads, key-value heads": f"{this.layers}, {this.heads}, {this.kv_heads}",
        "width, head width": f"{this.width}, {this.head_width}",
        "scale of scores": f"{this.scale:.6g}",
        "positions": this.positions + (f", up to {this.limit}" if this.limit else ""),
        "norm, folded into the matrices": this.norm,
        "random start": found.random_start,
        "notes": "; ".join(this.notes) or "none",
        "sources of these facts": "; ".join(f"{k}: {v}" for k, v in this.sources.items()),
        "attention tensors not counted": ", ".join(found.not_counted[:20]) or "none",
    }
    html = facts(pairs) + "".join(paragraph(reading) for reading in READINGS)
    return Section("facts", "Facts", "What was read", html)


def _kinds_section(found: Audit) -> Section:
    about, counts = found.text or {}, Counter(row["kind"] for row in found.rows)
    rows = [[rule["kind"], rule["rule"], counts[rule["kind"]]] for rule in about["kinds"]]
    html = paragraph(reading_in_words(about)) + table(["kind", "rule", "heads"], "llr", rows)
    html += paragraph("The rules are tried in this order.")
    return Section("kinds", "Kinds", "Kinds of heads on this text", html)


def _growth_section(found: Audit) -> Section:
    curves = (found.text or {})["curves"]
    names = {"text": "this text", "shuffled": "the same words shuffled", "random": "random weights"}
    series = [
        {"name": names[which], "x": _short(curves["T"]), "y": _short(values), "line": True,
         "marks": True, "color": f"series-{i}"}
        for i, (which, values) in enumerate(curves["median_n95"].items(), start=1)
    ]  # fmt: skip
    chart: Chart = {
        "id": "growth-median", "title": "Median over heads of n95 against the context length T",
        "x": {"label": "context length T", "short": "T", "log": True, "toggle": True},
        "y": {"label": "tokens that hold 95 % of the mass, median over heads", "short": "n95",
              "log": True, "toggle": True},
        "series": series, "rules": [], "hover": "x",
    }  # fmt: skip
    every = _every_head(found, curves)
    note = (
        "The paper says that bounded heads create sparse variables. On a real model this can be "
        "tested: how does the number of tokens that hold 95 % of a row grow with the context? An "
        "exponent near 0 means sparse or local, near 1 broad. This is a measurement on this text, "
        "not a theorem. The interval of an exponent belongs to the fitted line: between two halves "
        "of one text, about one head in seven differs by more than the intervals."
    )
    html = paragraph(note) + chart_frame(chart) + chart_frame(every)
    return Section("growth", "Growth", "How n95 grows with the context", html, (chart, every))


def _every_head(found: Audit, curves: Mapping[str, Any]) -> Chart:
    kinds = [rule["kind"] for rule in (found.text or {})["kinds"]]
    series = [
        {"name": f"layer {row['layer']}, head {row['head']}", "group": row["kind"],
         "x": _short(curves["T"]), "y": _short(curves["n95"][row["layer"]][row["head"]]),
         "line": True, "faint": True, "color": f"series-{1 + kinds.index(row['kind'])}"}
        for row in found.rows
    ]  # fmt: skip
    return {
        "id": "growth-heads", "title": "n95 of every head against T, by kind",
        "x": {"label": "context length T", "short": "T", "log": True, "toggle": True},
        "y": {"label": "n95 of every head, coloured by kind", "short": "n95", "log": True,
              "toggle": True},
        "series": series, "rules": [], "hover": "nearest",
    }  # fmt: skip


def _maps_section(found: Audit) -> Section:
    names = available(found.rows)
    light, dark = (draw_head_maps(found.rows, names, dark=dark) for dark in (False, True))
    html = paragraph(
        "One cell per head. Colours are logarithmic where values differ by 20 or more."
    )
    html += tag("div", inline_pair(light, dark, "maps"), "picture")
    return Section("maps", "Maps", "Layers down, heads across", html)


def _comparison_section(comparisons: Comparisons) -> Section:
    note = (
        "Medians over heads, and the share of pairs of heads in which the head of this checkpoint "
        "has the larger value. Near 50 % the quantity does not tell the two checkpoints apart. "
        "Norms measure the size of a head's matrices. They do not show on which data a checkpoint "
        "was trained, or whether it learned anything."
    )
    parts = [paragraph(note, "verdict")]
    for comparison in comparisons:
        rows = [
            [name, f"{e['median_here']:.4g}", f"{e['median_there']:.4g}",
             f"{100 * e['larger_here']:.0f} %"]
            for name, e in comparison["summary"].items()
        ]  # fmt: skip
        parts.append(tag("h3", escaped(f"against {comparison['against']}")))
        parts.append(table(["median over heads", "here", "there", "larger here"], "lrrr", rows))
        if comparison["rows"]:
            parts.append(folded("Differences head by head", _differences(comparison["rows"])))
    return Section("against", "Comparison", "Comparison with other checkpoints", "".join(parts))


def _differences(rows: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in rows[0] if rows[0][name] is not None and rows[0][name] != ""]
    cells = [[_cell(row[name]) for name in names] for row in rows]
    return tag("div", table(names, "r" * len(names), cells), "sortable")


def _table_section(found: Audit) -> Section:
    html = paragraph(
        "Click a heading to sort. --csv and --json give the same numbers in full. rank: stable "
        "rank of W_QK. radius: upper bound for all scores. F max, at D: the largest W_QK F over "
        "all distances, and its distance. share: of the capacity of all heads. loss, from, to: "
        "rise of the loss without the head, and its interval. low, high: interval of the fitted "
        "exponent."
    )
    for title, columns in HEAD_TABLES.items():
        known = [n for n in columns if any(row.get(n) not in (None, "") for row in found.rows)]
        if not known:
            continue
        part = ["part"] if any(row["part"] for row in found.rows) else []
        names = [*part, "layer", "head", *known]
        rows = [[_cell(row.get(name), 3) for name in names] for row in found.rows]
        headings = [columns.get(name, name) for name in names]
        html += tag("h3", title) + tag("div", table(headings, "r" * len(names), rows), "sortable")
    return Section("heads", "Heads", "Every head", html)


def _cell(value: Any, digits: int = 4) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.{digits}g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.0e}"
    return str(value)


def _short(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
