"""The parts of the page, each made from the same data as the printed figure."""

from collections.abc import Iterator, Sequence
from typing import Any

from capax.analysis.laws import Parameter
from capax.figures.experiments.learning_curves import LearningCurves, draw_learning_curves
from capax.figures.experiments.parity_transition import ParityTransition, draw_parity_transition
from capax.figures.experiments.threshold_comparison import NamedCurve, draw_threshold_comparison
from capax.figures.experiments.threshold_scaling import (
    FittedLaw,
    ThresholdPoint,
    ThresholdScaling,
    describe_setting,
    draw_threshold_scaling,
)
from capax.figures.heads.attention_weights import AttentionMap, draw_attention_weights
from capax.html import Markup, tag
from capax.report.charts import (
    attention_heatmap,
    comparison_chart,
    learning_chart,
    parity_charts,
    rates_chart,
    threshold_chart,
)
from capax.report.page import Section, chart_frame, charts_side_by_side, heatmap_frame
from capax.report.page_tables import folded, paragraph, table
from capax.report.provenance import trace_link
from capax.report.vector import inline_svg

Trace = dict[str, Any]
"""A filter of the table of runs."""


def comparison_section(curves: Sequence[NamedCurve], traces: Sequence[Trace]) -> Section:
    """All curves in one picture and one table; each also has its own part of the page."""
    chart = comparison_chart(list(_with_traces(curves, traces)), id="comparison-curves")
    rows = [
        [
            curve.name,
            point.T,
            point.m_star,
            known_interval(point),
            law_name(curve.data),
            _trials(point, trace),
        ]
        for curve, trace in zip(curves, traces, strict=True)
        for point in curve.data.points
    ]
    verdicts = [[curve.name, curve.data.verdict] for curve in curves]
    html = (
        paragraph(
            "All curves, measured and judged by the same rules. The parts below show each curve."
        )
        + chart_frame(chart)
        + table(["curve", "T", "m*", "95% interval", "law", "trials"], "lrrrlr", rows)
        + table(["curve", "verdict"], "ll", verdicts)
        + _printed(inline_svg(draw_threshold_comparison(curves), "comparison"))
    )
    title = f"{len(curves)} curves side by side"
    return Section("comparison", "Comparison", title, html, charts=(chart,))


def _with_traces(
    curves: Sequence[NamedCurve], traces: Sequence[Trace]
) -> Iterator[tuple[str, ThresholdScaling, Trace]]:
    for curve, trace in zip(curves, traces, strict=True):
        yield curve.name, curve.data, trace


def known_interval(point: ThresholdPoint) -> str:
    """The interval in words, or its known end (`> 993`)."""
    return interval(point.low, point.high) if point.status == "closed" else point.status


def law_name(data: ThresholdScaling) -> str:
    """The law of a curve, or "not settled"."""
    if not data.laws:
        return "too few T"
    return data.laws[0].name if data.status == "settled" else data.status


def threshold_section(
    data: ThresholdScaling, *, trace: Trace, anchor: str, name: str = ""
) -> Section:
    """Figure 2: the thresholds, the laws, and the table that links to the trials.

    `trace`: the filter that finds its runs in the table; `name`: the name of the curve, if there
    are several.
    """
    thresholds = threshold_chart(data, id=f"{anchor}-thresholds", trace=trace)
    rates = rates_chart(data, id=f"{anchor}-rates", trace=trace)
    printed = inline_svg(draw_threshold_scaling(data), anchor)
    html = (
        paragraph(data.verdict, "verdict")
        + paragraph(
            f"{describe_setting(data)}. m* is the smallest "
            "number of training examples at which at least 80% of the trials are solved. "
            f"{data.protocol} Hover for values, drag to zoom, click a point to see its trials."
        )
        + chart_frame(thresholds)
        + _threshold_table(data, trace)
        + (tag("h3", "Which law?") + _law_table(data.laws) if data.laws else "")
        + tag("h3", "Measurements")
        + chart_frame(rates)
        + _printed(printed)
    )
    title = name or "How many examples are needed as the context grows?"
    return Section(
        anchor, f"Figure 2{f', {name}' if name else ''}", title, html, charts=(thresholds, rates)
    )


def _threshold_table(data: ThresholdScaling, trace: Trace) -> str:
    headers = ["T", "m*", "95% interval", *(ref.name for ref in data.references)]
    headers += [f"m* / {data.references[0].name}"] if data.references else []
    rows = [_threshold_row(point, data, trace) for point in data.points]
    return table([*headers, "trials"], "r" * (len(headers) + 1), rows)


def _threshold_row(point: ThresholdPoint, data: ThresholdScaling, trace: Trace) -> list[object]:
    references = [_at(point.T, ref.T.tolist(), ref.m.tolist()) for ref in data.references]
    row: list[object] = [point.T, point.m_star, known_interval(point)]
    row += [None if value is None else f"{value:.4g}" for value in references]
    if references:
        row.append(None if point.ratio is None else f"{point.ratio:.2f}")
    return [*row, _trials(point, trace)]


def _trials(point: ThresholdPoint, trace: Trace) -> object:
    """The number of trials with a link to them; trials of a reference have no runs here."""
    if point.reference:
        return f"{point.trials} (reference)"
    return trace_link(str(point.trials), {**trace, "T": point.T})


def _at(T: int, grid: Sequence[float], values: Sequence[float]) -> float | None:
    return dict(zip(grid, values, strict=True)).get(T)


def _law_table(laws: Sequence[FittedLaw]) -> str:
    rows = [
        [
            law.name,
            law.formula,
            "; ".join(_parameter(q) for q in law.parameters),
            f"{law.weight:.3f}",
            None if law.p_fit is None else f"{law.p_fit:.2g}",
            "ruled out" if law.ruled_out else "",
        ]
        for law in laws
    ]
    headers = ["law", "formula", "parameters, 95% intervals", "weight", "fit p", ""]
    return table(headers, "lllrrl", rows, chosen=0)


def _parameter(parameter: Parameter) -> str:
    bounds = interval(parameter.low, parameter.high)
    return f"{parameter.name} = {parameter.value:.4g} {bounds}"


def interval(low: float | int | None, high: float | int | None) -> str:
    """`[41, 52]`; an unknown end is marked."""
    shown = ["open" if side is None else f"{side:.4g}" for side in (low, high)]
    return f"[{shown[0]}, {shown[1]}]"


def learning_section(data: LearningCurves, *, anchor: str) -> Section:
    """Figure 3, left."""
    chart = learning_chart(data, id=f"{anchor}-curves")
    threshold = f" The threshold at this T is m* = {data.threshold}." if data.threshold else ""
    text = (
        f"{data.task}, T = {data.T}. Training (dashed) fits every sample; validation (solid) shows "
        f"whether the model found the rule.{threshold}"
    )
    runs = [
        [
            c.m,
            _percent(c.train_accuracy[-1]),
            _percent(c.validation_accuracy[-1]),
            _run_link(c.run_id),
        ]
        for c in data.curves
    ]
    html = (
        paragraph(text)
        + chart_frame(chart)
        + table(["m", "training", "validation", "run"], "rrrl", runs)
        + _printed(inline_svg(draw_learning_curves(data), anchor))
    )
    return Section(anchor, "Figure 3, left", "Above and below the threshold", html, charts=(chart,))


def attention_section(maps: tuple[AttentionMap, ...], *, anchor: str) -> Section:
    """Figure 3, right."""
    heatmaps = tuple(attention_heatmap(a, id=f"{anchor}-{k}") for k, a in enumerate(maps))
    parts = [
        paragraph(
            "Rows are examples, columns positions, the last column is [CLS]; triangles mark the "
            "relevant positions I. Heads are ordered by how much the output depends on them; the "
            "number on the right is the rise of the loss without the head. “On I” is the share of "
            "the attention on I, not counting the attention on [CLS]. Idle heads spread their "
            "attention, and the output does not depend on them."
        )
    ]
    for attention, heatmap in zip(maps, heatmaps, strict=True):
        parts.append(tag("h3", _describe_map(attention)))
        parts.append(paragraph(Markup(f"Run {_run_link(attention.run_id).text}.")))
        parts.append(heatmap_frame(heatmap))
    parts.append(_printed(inline_svg(draw_attention_weights(maps), anchor)))
    title = "Where the trained model looks"
    return Section(anchor, "Figure 3, right", title, "".join(parts), heatmaps=heatmaps)


def _describe_map(attention: AttentionMap) -> str:
    heads = "One head" if len(attention.heads) == 1 else f"{len(attention.heads)} heads"
    support = ", ".join(map(str, attention.support))
    share = f"mean share on I {attention.share.mean():.2f}, largest {attention.share.max():.2f}"
    return (
        f"{heads}, T = {attention.T}, m = {attention.m}, I = {{{support}}}: {share}, "
        f"validation accuracy {_percent(attention.accuracy)}"
    )


def parity_section(data: ParityTransition, *, anchor: str) -> Section:
    """Figure 4."""
    columns = [parity_charts(panel, id=f"{anchor}-T{panel.T}") for panel in data.panels]
    html = paragraph(
        "Fresh examples at every step, one curve per seed. The loss stays at chance and then "
        "drops; the attention on the secret bits shows progress that the loss does not show."
    )
    for panel, charts in zip(data.panels, columns, strict=True):
        html += tag("h3", f"T = {panel.T}, s = {panel.s}: {panel.summary()}")
        html += charts_side_by_side(charts)
    html += _printed(inline_svg(draw_parity_transition(data), anchor))
    charts = tuple(chart for column in columns for chart in column)
    return Section(anchor, "Figure 4", "Sparse parities are learnt suddenly", html, charts=charts)


def _printed(svg: str) -> str:
    """The printed figure: open without JavaScript, closed by the script that draws the chart."""
    return folded("the figure as printed", svg, kind="printed", unfolded=True)


def _run_link(run_id: str) -> Markup:
    return trace_link(run_id[:12], {"text": run_id})


def _percent(value: float) -> str:
    return "100%" if value == 1 else f"{100 * float(value):.2f}%"
