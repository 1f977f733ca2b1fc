"""The page in a real browser: no errors, no requests, hover, log axis, traces, phone, dark mode."""

from itertools import pairwise

import figure_cases as cases
import pytest
import report_cases

from capax.figures.style import DARK, LIGHT
from capax.report.page import render_page

pytestmark = pytest.mark.usefixtures("without_layout")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(report_cases.page()), encoding="utf-8")
    return path


@pytest.fixture
def open_page(open_file, report):
    """A function that opens the report; at the end no error and no request may have happened."""

    def open_(width: int = 1100, height: int = 900, **options):
        page = open_file(report, width, height, **options)
        page.wait_for_selector("#figure-2-thresholds svg")
        return page

    return open_


def mark_centre(page, chart: str, index: int) -> tuple[float, float]:
    mark = page.locator(f"#{chart} .mark circle").nth(index)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_reader_with_mouse_and_keyboard(open_page):
    """One page, read out in three ways; hostile strings are only text and nothing is too wide."""
    page = open_page()
    assert page.evaluate("window.broken") is None
    assert "</script>" in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1100
    _colours_are(page, LIGHT)
    _hover_reads_out_threshold_interval_and_references(page)
    _hover_on_attention_names_position_bit_and_weight(page)
    page.locator("#figure-2-thresholds .plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    tip = page.locator("#figure-2-thresholds .tip").inner_text()
    assert f"T = {cases.LENGTHS[1]}" in tip


def _colours_are(page, palette):
    red, green, blue = (int(palette.background[k : k + 2], 16) for k in (1, 3, 5))
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == f"rgb({red}, {green}, {blue})"
    fill = "getComputedStyle(document.querySelector('#figure-2-thresholds .mark circle')).fill"
    red, green, blue = (int(palette.series[0][k : k + 2], 16) for k in (1, 3, 5))
    assert page.evaluate(fill) == f"rgb({red}, {green}, {blue})"


def _hover_reads_out_threshold_interval_and_references(page):
    point = cases.threshold_scaling().points[1]
    page.mouse.move(*mark_centre(page, "figure-2-thresholds", 1))
    tip = page.locator("#figure-2-thresholds .tip")
    assert tip.is_visible()
    text = tip.inner_text()
    assert f"T = {point.T}" in text
    assert f"{point.m_star} [{point.low}, {point.high}]" in text
    assert "best learner" in text
    page.mouse.move(1, 1)
    assert not tip.is_visible()


def _hover_on_attention_names_position_bit_and_weight(page):
    canvas = page.locator("#figure-3-right-0 canvas").first
    canvas.scroll_into_view_if_needed()
    attention = cases.attention_map(6, 5)
    box = canvas.bounding_box()
    t = attention.support[1]
    column = (t + 0.5) / (attention.T + 2)
    page.mouse.move(box["x"] + column * box["width"], box["y"] + 0.1 * box["height"])
    text = page.locator("#figure-3-right-0 .tip").inner_text()
    assert f"position {t} (relevant), bit {attention.bits[0, t]}" in text
    assert f"weight {attention.weights[0, 0, t]:.2g}"[:10] in text


def test_axes_change_their_scale_and_a_drag_zooms(open_page):
    page = open_page()
    chart = page.locator("#figure-2-thresholds")
    assert chart.get_attribute("data-scale") == "log-linear"
    before = [mark_centre(page, "figure-2-thresholds", k)[0] for k in range(3)]
    chart.locator("button[data-axis=x]").click()
    assert chart.get_attribute("data-scale") == "linear-linear"
    after = [mark_centre(page, "figure-2-thresholds", k)[0] for k in range(3)]
    gaps = [[b - a for a, b in pairwise(xs)] for xs in (before, after)]
    T = cases.LENGTHS
    assert gaps[1][1] / gaps[1][0] == pytest.approx((T[2] - T[1]) / (T[1] - T[0]), rel=0.02)
    assert gaps[0][1] / gaps[0][0] < gaps[1][1] / gaps[1][0]
    chart.locator("button[data-axis=y]").click()
    assert chart.get_attribute("data-scale") == "linear-log"
    _drag_zooms_and_the_whole_range_comes_back(page)


def _drag_zooms_and_the_whole_range_comes_back(page):
    chart = page.locator("#figure-2-rates")
    reset = chart.locator(".reset")
    assert not reset.is_visible()
    chart.scroll_into_view_if_needed()
    box = chart.locator(".plot").bounding_box()
    whole = mark_centre(page, "figure-2-rates", 1)
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 65, steps=4)
    page.mouse.up()
    assert reset.is_visible()
    assert mark_centre(page, "figure-2-rates", 1) != whole
    reset.click()
    assert not reset.is_visible()
    assert mark_centre(page, "figure-2-rates", 1) == whole


def test_thresholds_and_curves_lead_to_their_runs_and_a_run_to_its_spec(open_page):
    page = open_page()
    T = cases.LENGTHS[2]
    page.mouse.click(*mark_centre(page, "figure-2-thresholds", 2))
    runs = [run for run in report_cases.threshold_store().runs if run.T == T]
    count = page.locator("#runs .count")
    assert f"{len(runs)} runs of {len(runs) // 2} trials" in count.inner_text()
    shown = page.locator("#runs tbody tr:visible td:nth-child(2)").all_inner_texts()
    assert set(shown) == {str(T)}
    page.locator("#runs .run-id").first.click()
    detail = page.locator("#runs pre").first.inner_text()
    assert runs[0].run_id in detail and f'"T": {T}' in detail and '"heads": 16' in detail
    run_id = cases.learning_curves().curves[0].run_id
    page.locator("#figure-3-left a[data-trace]").first.click()
    assert "1 run of 1 trial" in count.inner_text()
    assert page.locator("#runs .run-id").first.inner_text() == run_id[:12]
    page.locator("#runs [data-page=all]").click()
    total = len(report_cases.threshold_store().runs) + len(report_cases.curve_store().runs)
    assert f"{total} runs" in count.inner_text()


@pytest.mark.parametrize("width", [320, 390])
def test_on_a_phone_nothing_is_too_wide_and_a_tap_reads_out(open_page, width):
    page = open_page(width, 844, has_touch=True, is_mobile=True, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    _colours_are(page, DARK)
    page.touchscreen.tap(*mark_centre(page, "figure-2-thresholds", 1))
    assert f"T = {cases.LENGTHS[1]}" in page.locator("#figure-2-thresholds .tip").inner_text()


def test_without_javascript_the_printed_figures_are_there(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("details.printed[open] svg").count() == 4
    assert not page.locator(".chart").first.is_visible()
    context.close()
