"""The page of a card in a real browser: light, dark, phone width, hostile names, no requests."""

from dataclasses import replace

import pytest

from capax.cards.answers.card_rows import (
    Card,
    CurveRow,
    LawRow,
    Row,
    TroubleRow,
    note_key,
)
from capax.cards.answers.parity_rows import MixedRow
from capax.report.card_page import card_page
from capax.report.page import render_page

pytestmark = pytest.mark.usefixtures("without_layout")

HOSTILE = "<script>window.broken = 1</script>"
LEARNERS = ("transformer", "mlp", "lasso", "tree", "cnn", "lstm", HOSTILE)


def example(learners=LEARNERS):
    rows, notes = [], {}
    for k, name in enumerate(learners, start=1):
        for target in ("and3", "parity3"):
            for T in (20, 50, 100):
                for a in (1.0, 0.99, 0.95):
                    m = None if name == "lstm" else 20 + k * T
                    side = None if m is None else m - 5, None if m is None else m + 9
                    rows.append(Row(name, target, T, a, m, *side, 20, 0.7, 1e-3, 0.2))
                    status = "does not reach 80 % for any m tried" if m is None else "closed"
                    notes[note_key(name, target, T, a)] = status
    laws = tuple(LawRow(n, "and3", 1.0, "log", 0.3, ("linear",)) for n in learners)
    curves = (CurveRow("mlp", "and3", 100, 60, (100.0, 200.0), (0.6, 0.9)),)
    about = {"and3": {"function": "and3", "s": 3, "leap": 1, "degree": 3, "sensitivity": 3}}
    counts = {"mlp": {"parameters": {"20": 13000}}}
    mixed = (
        MixedRow("mlp", 20, 640, 4, 0.75, 0.0, 0.25, 0.003),
        MixedRow(HOSTILE, 20, 640, 4, 0.0, 0.5, 0.5, None),
    )
    protocol = {"steps": 1000}
    failed = (
        TroubleRow("mlp", "and3", 50, 7, HOSTILE),
        TroubleRow("mlp", "parity3", 50, 3, "late"),
    )
    named = {"measured": learners[-1:], "mixed": mixed, "troubles": failed}
    return Card(tuple(rows), laws, curves, notes, counts, about, protocol, **named)


def test_the_page_says_what_the_card_holds():
    text = render_page(card_page(example(), "capax card --mine 'a.py:b'"))
    assert HOSTILE not in text
    assert "leap 1, degree 3, sensitivity 3" in text
    assert "never" in text
    assert "13,000 at T = 20" in text
    assert "Two rules fit" in text
    assert text.count("Trials that ended with an error") == 2
    less = replace(example(), mixed=(), troubles=())
    without = render_page(card_page(less, "capax card"))
    assert "Two rules fit" not in without
    assert "ended with an error" not in without
    assert "capax card --mine &#x27;a.py:b&#x27;" in text


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    path = tmp_path_factory.mktemp("card") / "card.html"
    path.write_text(render_page(card_page(example(), "capax card")), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (390, "dark")])
def test_the_page_in_a_browser(scheme, width, card, open_file):
    page = open_file(card, width, 800, color_scheme=scheme)
    page.wait_for_selector("#thresholds-1-100 svg")
    assert page.locator("#thresholds-1-100 .mark circle").count() == 3 * (len(LEARNERS) - 1)
    assert page.locator("table.heat tbody tr").count() == len(LEARNERS)
    mixed = page.locator("#mixed tbody tr").all_inner_texts()
    assert [row.split("\t") for row in mixed] == [
        ["mlp", "20", "640", "4", "0.003", "75%", "0%", "25%"],
        [HOSTILE, "20", "640", "4", "", "0%", "50%", "50%"],
    ]
    assert page.evaluate("window.broken") is None
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
