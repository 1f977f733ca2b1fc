"""Saving pictures: what the log says meanwhile."""

import logging

from matplotlib.figure import Figure

from capax.figures.style import FONT_DATES, save, styled


def test_formulas_in_a_pdf_are_saved_without_warnings(tmp_path, caplog):
    with styled():
        figure = Figure()
        figure.subplots().set_title(r"$m^*(T)$")
    level = FONT_DATES.level
    with caplog.at_level(logging.WARNING):
        save(figure, tmp_path / "formula.pdf")
    assert caplog.records == []
    assert FONT_DATES.level == level
