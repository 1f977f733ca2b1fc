"""The page: one HTML file that contains its styles, scripts and data and loads nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any

from capax.foreign import script_json
from capax.html import escaped, tag
from capax.report.charts import Chart
from capax.report.vector import css_variables

_SCRIPTS = ("scale.js", "chart.js", "pointer.js", "heatmap.js", "runs.js", "sortable.js", "page.js")


@dataclass(frozen=True)
class Finding:
    """A number, and its meaning."""

    value: str
    meaning: str


@dataclass(frozen=True)
class Section:
    """A part of the page. `kicker` is the small line above the title; `html` is its content."""

    anchor: str
    kicker: str
    title: str
    html: str
    charts: tuple[Chart, ...] = ()
    heatmaps: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class Page:
    """The content of the page; `stores` are the tables of the runs its numbers come from."""

    title: str
    lead: str
    findings: tuple[Finding, ...]
    sections: tuple[Section, ...]
    stores: tuple[dict[str, Any], ...]
    footer: str


def render_page(page: Page) -> str:
    """The HTML text of the page."""
    data = {
        "charts": [chart for section in page.sections for chart in section.charts],
        "heatmaps": [heatmap for section in page.sections for heatmap in section.heatmaps],
        "stores": list(page.stores),
    }
    return Template(_asset("page.html")).substitute(
        title=escaped(page.title),
        lead=escaped(page.lead),
        style=css_variables() + _asset("page.css"),
        findings="".join(_finding(finding) for finding in page.findings),
        navigation="".join(_link(section) for section in page.sections),
        sections="\n".join(_section(section) for section in page.sections),
        footer=escaped(page.footer),
        data=script_json(data),
        script="\n".join(_asset(name) for name in _SCRIPTS),
    )


def chart_frame(chart: Chart) -> str:
    """The empty frame that `chart.js` fills."""
    return (
        f'<div class="chart" id="{escaped(chart["id"])}">'
        '<div class="bar"><span class="y-label"></span><span class="controls"></span></div>'
        f'<div class="plot" tabindex="0" aria-label="{escaped(chart["title"])}"></div>'
        '<div class="tip" role="status" hidden></div><div class="legend"></div></div>'
    )


def heatmap_frame(heatmap: Chart) -> str:
    """The empty frame that `heatmap.js` fills."""
    kind = "strips single" if len(heatmap["heads"]) == 1 else "strips"
    return (
        f'<div class="heatmap" id="{escaped(heatmap["id"])}"><div class="{kind}"></div>'
        '<div class="tip" role="status" hidden></div></div>'
    )


def charts_side_by_side(charts: Sequence[Chart]) -> str:
    """Frames side by side, or below each other on a narrow screen."""
    return tag("div", "".join(chart_frame(chart) for chart in charts), "row")


def _finding(finding: Finding) -> str:
    value, meaning = tag("b", escaped(finding.value)), tag("span", escaped(finding.meaning))
    return tag("li", value + meaning)


def _link(section: Section) -> str:
    return f'<a href="#{escaped(section.anchor)}">{escaped(section.kicker or section.title)}</a>'


def _section(section: Section) -> str:
    kicker = tag("small", escaped(section.kicker)) if section.kicker else ""
    heading = tag("h2", kicker + escaped(section.title))
    return f'<section id="{escaped(section.anchor)}">{heading}{section.html}</section>'


def _asset(name: str) -> str:
    return files("capax.report").joinpath("assets", name).read_text(encoding="utf-8")
