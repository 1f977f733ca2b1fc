"""The page of an audit: complete, self-contained, and alive in a real browser."""

import numpy as np
import pytest

from capax.audit.auditing import Audit
from capax.audit.comparing import against_random, compare
from capax.audit.layouts.facts import Facts
from capax.figures.heads.audit_heatmaps import available, draw_head_maps, grid_of
from capax.report.audit_page import audit_page, write_audit_page

pytestmark = pytest.mark.usefixtures("without_layout")

HOSTILE = "</script><img src=x onerror=window.broken=1>"
QUANTITIES = ("W_QK_F", "W_QK_2", "stable_rank", "W_VO_2", "W_VO_21", "score_radius")
LENGTHS = [16.0, 32.0, 64.0, 128.0]


def made(seed=0, text=True, name=HOSTILE):
    """An audit of 3 layers x 2 heads with made-up numbers and a hostile name."""
    rng = np.random.default_rng(seed)
    rows = []
    for layer in range(3):
        for head in range(2):
            row = {"part": "", "layer": layer, "head": head, "ratio_to_random": 1.0 + layer,
                   "capacity_share": 1 / 6, **{q: float(v) for q, v in
                   zip(QUANTITIES, 1 + rng.random(6), strict=True)}}  # fmt: skip
            row |= {f"{q}_to_random": 2.0 for q in QUANTITIES}
            if text:
                row |= {"kind": ["sparse", "broad"][head], "n95": 3.0 + layer, "n95_exponent": 0.1,
                        "n95_exponent_low": 0.0, "n95_exponent_high": 0.2, "mean_distance": 4.0,
                        "n95_exponent_shuffled": 0.3, "n95_exponent_random": 0.98,
                        "effective_tokens": 2.0, "first_token_share": 0.2,
                        "loss_difference": 0.1 * layer, "loss_difference_low": 0.1 * layer - 0.05,
                        "loss_difference_high": 0.2, "looks_at": [{"word": HOSTILE, "share": 0.5}],
                        "examples": [{"from": "a", "to": HOSTILE, "back": 3, "weight": 0.9,
                                      "context": f"{HOSTILE} a"}]}  # fmt: skip
            rows.append(row)
    about = {"kinds": [{"kind": "sparse", "rule": "a"}, {"kind": "broad", "rule": "b"}],
             "tokens_read": 128, "windows": 1, "longest_context": 128, "attention": "causal",
             "rows_per_head": 30, "text_tokens": 158, "every_line_alone": False,
             "ablation": {"heads": 6, "of": 6, "pieces": 9, "piece_tokens": 64,
                          "loss": "next token"},
             "curves": {"T": LENGTHS, "n95": np.ones((3, 2, 4)).tolist(),
                        "median_n95": {"text": [1.0, 2.0, 3.0, 4.0], "shuffled": [2.0] * 4,
                                       "random": [14.0, 30.0, 60.0, 120.0]}}}  # fmt: skip
    facts = Facts("Llama", 3, 2, 1, 4, 8, 0.5, "rotary", "pre-RMSNorm", 128, (name,))
    return Audit(f"/models/{name}.gguf", "GGUF", facts, "normal", tuple(rows), (name,),
                 about if text else None)  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page of an audit and two comparisons."""
    found, there = made(), made(seed=1)
    path = tmp_path_factory.mktemp("audit") / "audit.html"
    return write_audit_page(found, [against_random(found), compare(found, there)], path)


def test_the_page_has_every_head_and_says_what_is_vacuous(written):
    html = written.read_text()
    for word in ("Rigorous", "A comparison, not a bound", "Vacuous", "does not tell the two"):
        assert word in html
    assert HOSTILE not in html
    assert html.count("<tr") >= 6 + 6 + 6 + 6
    assert "The text has 158 tokens. The model read 128 tokens in 1 window of up to 128" in html
    telling = html[html.index('id="telling"') : html.index('id="facts"')]
    assert telling.index("+0.200 (0.150 to 0.200)") < telling.index("+0.100 (0.050 to 0.200)")
    assert "above 0 for 4 of these heads" in telling


def test_without_text_the_page_has_fewer_sections(monkeypatch):
    monkeypatch.setattr("capax.report.audit_page.inline_pair", lambda *_: "")  # takes seconds
    assert [s.anchor for s in audit_page(made(text=False)).sections] == ["facts", "maps", "heads"]


def test_maps_put_every_head_in_its_cell():
    rows = made().rows
    assert grid_of(rows, "ratio_to_random").tolist() == [[1, 1], [2, 2], [3, 3]]
    names = available(rows)
    assert "n95_exponent" in names and "W_QK_F" in names
    assert len(draw_head_maps(rows, ["W_QK_F", "n95"]).axes) == 4  # two maps, two colour bars


def test_the_page_in_a_browser(written, open_file):
    wide = open_file(written, 1200, 800)
    cut = (
        "[...document.querySelectorAll('#heads .scroll')].some(e => e.scrollWidth > e.clientWidth)"
    )
    assert not wide.evaluate(cut)
    page = open_file(written, 400, 800)
    page.wait_for_selector("#growth-median svg")
    assert page.evaluate("window.broken") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    cell = "#heads tbody tr:first-child td:nth-child(1) >> nth=0"
    assert page.locator(cell).inner_text() == "0"
    page.locator("#heads button.sort", has_text="layer").first.click()
    assert page.locator(cell).inner_text() == "2"
    page.locator("#heads button.sort", has_text="layer").first.click()
    assert page.locator(cell).inner_text() == "0"
