"""Hostile names on every page and picture, in a real browser: nothing runs, nothing is fetched."""

import re
from xml.etree import ElementTree

import pytest
import test_audit_page
import test_card_page
from matplotlib.figure import Figure

from capax.audit.comparing import against_random, compare
from capax.figures.paper.from_stores import figure_2
from capax.figures.style import save, styled
from capax.foreign import html_text, printable
from capax.report.audit_page import write_audit_page
from capax.report.build import TITLE, write_report
from capax.report.card_page import card_page
from capax.report.page import render_page
from capax.report.vector import inline_svg
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store

pytestmark = pytest.mark.usefixtures("without_layout")

ACTS = "document.title = 'taken'; window.broken = 1; alert(1)"
HOSTILE = (
    f"</script><script>{ACTS}</script>",
    f'--><img src=x onerror="{ACTS}">',
    f'\' onmouseover="{ACTS}" autofocus onfocus="{ACTS}" x=\'',
    f']]></style></title><svg onload="{ACTS}"><iframe src=javascript:alert(1)>',
    "[/b][link=x] $\\frac{1}{0}$ $$ 100 % \\$ _^{",
    "\x1b[31mred\x1b]0;taken\x07 \x00\x08",
    "one\u2028two\u2029three \u202eltr\u2066 {{constructor}} ${1} $title",
)
HARMLESS = """() => ({
  title: document.title,
  broken: window.broken ?? null,
  scripts: document.querySelectorAll("script").length,
  strangers: [...document.querySelectorAll("img, iframe, object, embed, base, form, link")]
    .filter((node) => !(node.rel === "icon" && node.href === "data:,")).length,
  handlers: [...document.querySelectorAll("*")]
    .flatMap((node) => [...node.attributes]).filter((a) => a.name.startsWith("on")).length,
})"""
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


def check(page, title, scripts):
    wanted = {"broken": None, "scripts": scripts, "strangers": 0, "handlers": 0}
    assert page.evaluate(HARMLESS) == {"title": title, **wanted}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A sweep whose names, panels and variants are all hostile; so is the name of its file."""
    variants = {name: {"model": {"growth": 4.0 + k}} for k, name in enumerate(HOSTILE)}
    plan = build_experiment(
        {
            "name": HOSTILE[0],
            "claim": HOSTILE[1],
            "family": "simulated",
            "T": [10, 100],
            "axes": {HOSTILE[2]: variants},
            "search": {"m_low": 5, "m_high": 90, "batch": 8, "min_trials": 8, "max_trials": 8},
        }
    )
    path = tmp_path_factory.mktemp("hostile") / f"{HOSTILE[2]}.sqlite"
    with Store.create_or_resume(path, plan) as opened:
        run_sweep(plan, opened)
    return path


def test_report_and_its_table_of_runs(store, tmp_path, open_file):
    write_report([store], tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not UNSEEN.search(text)
    page = open_file(tmp_path / "report.html")
    check(page, TITLE, 2)
    for name in HOSTILE:
        assert html_text(name) in text
    variants = page.locator("#runs select[data-filter=panel] option").all_inner_texts()
    assert {printable(name) for name in HOSTILE} <= {
        option.replace("\xa0", " ") for option in variants
    }
    page.locator("a[data-trace]").first.click()  # a number still leads to its runs
    assert page.locator("#runs tbody tr").count() > 0
    page.locator("#runs .run-id").first.click()
    page.locator(".chart .plot").first.hover()
    check(page, TITLE, 2)


def test_card_and_audit(tmp_path, open_file):
    card = tmp_path / "card.html"
    learners = tuple("".join(HOSTILE[k::3]) for k in range(3))
    card.write_text(render_page(card_page(test_card_page.example(learners), HOSTILE[3])), "utf-8")
    there, here = (test_audit_page.made(seed, name="".join(HOSTILE)) for seed in (0, 1))
    audit = write_audit_page(
        here, [against_random(here), compare(here, there)], tmp_path / "a.html"
    )
    for path in (card, audit):
        text = path.read_text(encoding="utf-8")
        assert not UNSEEN.search(text)
        assert html_text(HOSTILE[4]) in text
        page = open_file(path)
        check(page, page.locator("h1").inner_text(), 2)
        page.locator(".chart .plot").first.hover()
        check(page, page.locator("h1").inner_text(), 2)


def test_pictures(store, tmp_path, open_file):
    picture = figure_2([store], False, None)[0]
    path = save(picture, tmp_path / "figure.svg")
    ElementTree.parse(path)
    assert not UNSEEN.search(path.read_text(encoding="utf-8"))
    check(open_file(path), "", 0)


def test_a_dollar_in_a_name_is_a_dollar_and_a_script_without_letters_is_quiet(tmp_path):
    with styled():
        figure = Figure()
        for k, name in enumerate((*HOSTILE, "漢字")):
            figure.text(0.1, 0.1 * k, name)
    ElementTree.parse(save(figure, tmp_path / "f.svg"))
    inside = inline_svg(figure, "names")
    shown = {
        text.text for text in ElementTree.fromstring(inside).iter() if text.tag.endswith("text")
    }
    assert {printable(name) for name in HOSTILE} <= shown
