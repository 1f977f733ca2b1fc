"""The page is self-contained, escapes what it was given, and keeps every number of the data."""

import dataclasses
import json
import re
from dataclasses import replace

import figure_cases as cases
import pytest
import report_cases
from hypothesis import given
from hypothesis import strategies as st

from any_text import any_text
from capax.figures.experiments.threshold_scaling import SuccessRates, draw_threshold_scaling
from capax.figures.style import LIGHT
from capax.foreign import printable, script_json
from capax.html import Markup
from capax.report.charts import threshold_chart
from capax.report.page import render_page
from capax.report.page_tables import facts, table
from capax.report.provenance import (
    flattened,
    nested_fields,
    shared_fields,
    store_payload,
    trace_link,
)
from capax.report.sections import interval, threshold_section
from capax.report.vector import inline_svg

pytestmark = pytest.mark.usefixtures("without_layout")

VALUES = st.none() | st.booleans() | st.integers(-5, 5) | any_text(max_size=4)
NAMES = st.text("abcxyz_", min_size=1, max_size=4)
SPECS = st.dictionaries(
    NAMES, VALUES | st.dictionaries(NAMES, VALUES, min_size=1, max_size=3), max_size=4
)


@pytest.fixture(scope="module")
def html() -> str:
    return render_page(report_cases.page())


def test_nothing_is_loaded_from_elsewhere(html):
    outside = re.findall(r"(?:src|href|@import|url)\s*[=(]\s*[\"']?(https?:)?//", html)
    assert not outside
    assert not re.findall(r'<(?:link|script|img|iframe)[^>]+(?:src|href)="(?!data:)', html)


def test_hostile_strings_stay_text(html):
    assert "<script>window.broken" not in html
    assert html.count("<script") == 2


def test_the_data_survive_the_embedding(html):
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    assert [store["name"] for store in data["stores"]] == ["figure2", "figure3"]
    assert len(data["stores"][0]["rows"]) == len(report_cases.threshold_store().runs)
    assert {chart["id"] for chart in data["charts"]} >= {"figure-2-thresholds", "figure-2-rates"}
    assert [len(heatmap["heads"]) for heatmap in data["heatmaps"]] == [6, 1]


def test_ids_are_unique(html):
    identifiers = re.findall(r'\bid="([^"]+)"', html)
    assert len(identifiers) == len(set(identifiers))


def test_every_threshold_leads_to_its_trials(html):
    for point in cases.threshold_scaling().points:
        assert trace_link(str(point.trials), {"store": "figure2", "T": point.T}).text in html


@given(any_text())
def test_script_json_never_closes_its_element_and_reads_back(text):
    embedded = script_json({text: [text, 3]})
    assert "<" not in embedded and embedded.isascii()
    assert json.loads(embedded) == {printable(text): [printable(text), 3]}


@given(SPECS)
def test_flattening_a_spec_loses_nothing(spec):
    solid = {name: value for name, value in spec.items() if value != {}}
    assert nested_fields(flattened(solid)) == solid


@given(st.lists(SPECS, min_size=1, max_size=5))
def test_common_fields_and_changes_give_every_spec_back(specs):
    flat = [flattened(spec) for spec in specs]
    common, varying = shared_fields(flat)
    for fields in flat:
        assert common | {name: fields[name] for name in varying if name in fields} == fields


def test_store_payload_rebuilds_the_spec_of_every_run():
    record = report_cases.threshold_store()
    payload = store_payload(record)
    for row, run in zip(payload["rows"], record.runs, strict=True):
        values = dict(zip(payload["columns"], row, strict=True))
        changes = dict(zip(payload["varying"], values["changes"], strict=True))
        assert nested_fields(flattened(payload["common"]) | changes) == run.spec
        assert (values["run_id"], values["T"], values["m"]) == (run.run_id, run.T, run.m)
    assert set(payload["varying"]) == {"task.T", "task.m", "task.seed", "restart"}


def test_chart_data_are_the_figure_data():
    data = cases.threshold_scaling()
    chart = threshold_chart(data, id="c", trace={"store": "s"})
    thresholds, law, *_ = chart["series"]
    assert thresholds["x"] == [q.T for q in data.points]
    assert thresholds["y"] == [q.m_star for q in data.points]
    assert thresholds["high"] == [q.high for q in data.points]
    assert law["y"] == pytest.approx(data.laws[0].m.tolist(), rel=1e-5)
    assert [trace["T"] for trace in thresholds["traces"]] == [q.T for q in data.points]


def one_length():
    """A store with one T, few trials at m that lie far apart, and no law: a first small sweep."""
    data = cases.threshold_scaling()
    T = data.points[0].T
    return replace(
        data,
        points=data.points[:1],
        rates=(SuccessRates(T, (5, 9, 400), (0, 1, 2), (2, 2, 2)),),
        laws=(),
        references=tuple(replace(r, T=r.T[:1], m=r.m[:1]) for r in data.references),
    )


def test_trials_of_a_reference_are_shown_as_such():
    data = cases.threshold_scaling()
    *own, last = data.points
    points = (*own, dataclasses.replace(last, reference=True))
    data = dataclasses.replace(data, points=points, protocol="Protocol: none.")
    section = threshold_section(data, trace={"store": "s"}, anchor="some")
    assert f"{last.trials} (reference)" in section.html and "Protocol: none." in section.html
    measured, others, *_ = threshold_chart(data, id="c", trace={"store": "s"})["series"]
    assert (measured["x"], others["x"]) == ([q.T for q in own], [last.T])
    assert "traces" not in others and len(measured["traces"]) == len(own)


def test_a_single_length_is_seen_in_the_charts():
    section = threshold_section(one_length(), trace={"store": "s"}, anchor="one")
    thresholds, rates = section.charts
    assert [series["marks"] for series in thresholds["series"]] == [
        True
    ] * 3  # no line has a length
    (only,) = rates["series"]
    assert only["strength"] == 1 and "line" not in only and rates["x"]["log"]
    assert "Which law?" not in section.html
    many = threshold_section(cases.threshold_scaling(), trace={"store": "s"}, anchor="many")
    assert "Which law?" in many.html and not many.charts[1]["x"]["log"]
    assert all("line" in series for series in many.charts[1]["series"])


def test_a_single_length_is_seen_in_the_figure():
    left, right = draw_threshold_scaling(one_length()).axes
    assert left.get_legend() is None and left.get_title(loc="left").endswith(", T = 53")
    assert left.get_xscale() == "log" and [int(m) for m in left.get_xticks()][:2] == [5, 10]
    marks = [line.get_marker() for line in right.lines if len(line.get_xdata()) == 1]
    assert marks.count("_") == len(one_length().references)


def test_inlined_figures_use_the_colours_of_the_page():
    svg = inline_svg(draw_threshold_scaling(cases.threshold_scaling()), "fig")
    assert svg.startswith("<svg") and svg.endswith("</svg>")
    for color in (LIGHT.ink, LIGHT.muted, *LIGHT.series[:2]):
        assert not re.search(rf": ?{color}\b", svg, re.IGNORECASE)
    assert "var(--series-1)" in svg and "var(--muted)" in svg
    assert svg == inline_svg(draw_threshold_scaling(cases.threshold_scaling()), "fig")


def test_tables_escape_align_and_choose():
    text = table(["a<b", "n"], "lr", [["x & y", 1], [Markup("<i>z</i>"), None]], chosen=1)
    assert "a&lt;b" in text and "x &amp; y" in text and "<i>z</i>" in text
    assert text.count('class="number"') == 3
    assert text.count('class="chosen"') == 1
    assert "&lt;tag&gt;" in facts({"<tag>": "v"})


def test_open_intervals_say_so():
    assert interval(41, 52) == "[41, 52]"
    assert interval(None, 52) == "[open, 52]"
