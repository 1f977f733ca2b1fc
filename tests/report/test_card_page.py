"""The page of a card in a real browser: light, dark, phone width, hostile names, no requests."""

import shutil

import pytest

from capax.cards.results import Card, CurveRow, LawRow, Row, note_key
from capax.report.card_page import card_page
from capax.report.page import render_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "<script>window.broken = 1</script>"
LEARNERS = ("transformer", "mlp", "lasso", "tree", "cnn", "lstm", HOSTILE)


def example():
    rows, notes = [], {}
    for k, name in enumerate(LEARNERS, start=1):
        for target in ("and3", "parity3"):
            for T in (20, 50, 100):
                for a in (1.0, 0.99, 0.95):
                    m = None if name == "lstm" else 20 + k * T
                    side = None if m is None else m - 5, None if m is None else m + 9
                    rows.append(Row(name, target, T, a, m, *side, 20, 0.7, 1e-3, 0.2))
                    status = "does not reach 80 % for any m tried" if m is None else "closed"
                    notes[note_key(name, target, T, a)] = status
    laws = tuple(LawRow(n, "and3", 1.0, "log", 0.3, ("linear",)) for n in LEARNERS)
    curves = (CurveRow("mlp", "and3", 100, 60, (100.0, 200.0), (0.6, 0.9)),)
    about = {"and3": {"function": "and3", "s": 3, "leap": 1, "degree": 3, "sensitivity": 3}}
    counts = {"mlp": {"parameters": {"20": 13000}}}
    return Card(tuple(rows), laws, curves, notes, counts, about, {"steps": 1000}, (HOSTILE,))


def test_the_page_says_what_the_card_holds():
    text = render_page(card_page(example(), "capax card --mine 'a.py:b'"))
    assert HOSTILE not in text
    assert "leap 1, degree 3, sensitivity 3" in text
    assert "never" in text
    assert "13,000 at T = 20" in text
    assert "capax card --mine &#x27;a.py:b&#x27;" in text


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; CI installs it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390])
def test_the_page_in_a_browser(scheme, width, tmp_path):
    api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    path = tmp_path / "card.html"
    path.write_text(render_page(card_page(example(), "capax card")), encoding="utf-8")
    problems = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: r.url != path.as_uri() and problems.append(r.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html.ready")
        page.wait_for_selector("#thresholds-1-100 svg")
        assert page.locator("#thresholds-1-100 .mark circle").count() == 3 * (len(LEARNERS) - 1)
        assert page.locator("table.heat tbody tr").count() == len(LEARNERS)
        assert page.evaluate("window.broken") is None
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        browser.close()
    assert not problems
