"""Objects show themselves in a notebook: their numbers as tables, foreign text as text."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import capax

ALLOWED = {"table", "thead", "tbody", "tr", "th", "td", "div", "b"}
HOSTILE = '<script>alert(1)</script>&"[b]'


class Tags(HTMLParser):
    """The tags of a page, and whether each that was opened was closed."""

    def __init__(self, page):
        super().__init__()
        self.seen, self.open = set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.open.append(tag)
        assert {name for name, _ in attrs} <= {"style"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "known.toml").write_text('family = "simulated"\nT = [11, 103, 1009]')
    answer = capax.thresholds(capax.sweep(folder / "known.toml", folder / "known.sqlite"))
    compiled = capax.compile("maj(x1, x5, x9)", 13, dtype=np.float64)
    bounds = capax.bound("W_QK=2,v=1", T=1009, m=100_003, margin=0.5)
    return {
        "SparseFunction": (capax.parse("x1 & ~x5", 13), "x1"),
        "Compiled": (compiled, f"{compiled.certificate.margin:.4g}"),
        "ErrorCertificate": (bounds, f"{bounds.best.value:.4g}"),
        "Bound": (bounds.best, f"{bounds.best.value:.4g}"),
        "Threshold": (answer.thresholds[0], str(answer.thresholds[0].m_star)),
        "Scaling": (answer.scaling, "m* = a + b ln T"),
        "Answer": (answer, str(answer.thresholds[1].m_star)),
    }


@pytest.mark.parametrize(
    "name",
    ["SparseFunction", "Compiled", "ErrorCertificate", "Bound", "Threshold", "Scaling", "Answer"],
)
def test_every_type_a_user_meets_has_a_table(shown, name):
    thing, number = shown[name]
    page = thing._repr_html_()
    tags = Tags(page)
    assert not tags.open and "table" in tags.seen and tags.seen <= ALLOWED
    assert number in re.sub("<[^>]*>", " ", page)
    if hasattr(thing, "_repr_latex_"):
        formula = thing._repr_latex_()
        assert formula.startswith("$") and formula.endswith("$")
        assert formula.count("{") == formula.count("}")
        assert not re.search(r"\de[+-]\d", formula), "2e+08 is no LaTeX"


def test_foreign_text_stays_text():
    from capax.foreign import latex_text
    from capax.html import html_table

    page = html_table([(HOSTILE, 3)], head=(HOSTILE, "n"), title=HOSTILE, notes=(HOSTILE,))
    assert Tags(page).seen <= ALLOWED
    assert page.count("&lt;script&gt;") == 4
    assert latex_text("a_b{c}") == r"\text{a\_b\{c\}}"
