"""Saving pictures: what the log says meanwhile."""

from logging import getLogger
from logging.handlers import BufferingHandler

from matplotlib.figure import Figure

from capax.figures.style import FONT_DATES, save, styled


def test_formulas_in_a_pdf_are_saved_without_warnings(tmp_path):
    with styled(formulas=True):
        figure = Figure()
        figure.subplots().set_title(r"$m^*(T)$")
    level, log, heard = FONT_DATES.level, getLogger(), BufferingHandler(1000)
    log.addHandler(heard)
    try:
        save(figure, tmp_path / "formula.pdf")
        assert heard.buffer == []
        getLogger(FONT_DATES.name).warning("heard")  # of this very log
        assert [record.msg for record in heard.buffer] == ["heard"]
    finally:
        log.removeHandler(heard)
    assert FONT_DATES.level == level
