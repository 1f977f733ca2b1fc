"""Every erratum: the printed form fails, the corrected one holds, and the page says so."""

from pathlib import Path

import pytest

from capax.compiler.paper.paper_heads import paper_heads
from capax.statements.checking import CHECKS, check_statement
from capax.statements.errata import ERRATA, Erratum, errata_of, markdown_list
from capax.statements.instances.representation_counterexamples import (
    leaning_codes,
    uneven_codes,
    worst_error,
)

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda e: e.name)
def test_the_printed_form_fails(erratum):
    assert not erratum.counterexample().holds
    assert all(number in CHECKS for number in erratum.numbers)
    assert erratum in errata_of(erratum.numbers[-1])


def test_the_repaired_heads_work_where_the_printed_ones_fail():
    codes = uneven_codes(1000, 3, 0.05)
    for encoding, gamma in (("deterministic", 2 / 3), ("bag", 1 / 3)):
        made = paper_heads(1000, (0, 1, 2), encoding, gamma=gamma, codes=codes)
        assert worst_error(made) <= gamma / 4 and made.within_limits()
        assert abs(made.Delta - 0.05) < 1e-12
    below = leaning_codes(65, 0.32)  # 0.32 < 1/(2s - 1) = 1/3
    assert worst_error(paper_heads(65, (0, 1), codes=below)) <= 0.25


def test_the_page_is_the_list():
    page = (ROOT / "docs" / "errata.md").read_text()
    assert markdown_list() in page
    assert len({e.name for e in ERRATA}) == len(ERRATA)


def test_a_wrong_erratum_is_seen(monkeypatch):
    from capax.statements import checking
    from capax.statements.instances.small_instance import SmallInstance

    found = check_statement("4.6")
    assert found.holds and [e.name for e, _ in found.errata] == ["P22"]
    monkeypatch.setitem(checking.CHECKS, "4.6", lambda: SmallInstance(False, "planted"))
    assert not check_statement("4.6").holds
    monkeypatch.undo()
    wrong = Erratum("P0", ("4.6",), "", "", lambda: SmallInstance(True, "it holds"))
    monkeypatch.setattr(checking, "errata_of", lambda _: (wrong,))
    assert not check_statement("4.6").holds
