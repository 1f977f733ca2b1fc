"""A card as a picture, a table and a notebook cell."""

from dataclasses import replace

import pytest

from capax.cards.answers.card_rows import Card, Row, note_key
from capax.cards.answers.reference_card import reference_card
from capax.errors import InputError
from capax.figures.experiments.card_curves import MOST


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.fixture(scope="module")
def card():
    """Seventeen learners on and3; one of them is the user's."""
    return replace(reference_card().only(["and3"], (20, 50, 100)), measured=("mlp",))


def test_eight_names_the_own_learner_strong_the_others_faint(card):
    figure = card.plot(accuracies=(1.0,))
    (axes,) = figure.axes
    names = {text.get_text().split(":")[0]: text for text in axes.texts}
    assert len(names) == MOST + 1 and {"mlp", "floor"} <= names.keys()
    assert names["mlp"].get_fontweight() == "bold"
    assert [n for n, text in names.items() if text.get_fontweight() == "bold"] == ["mlp"]
    faint = [line for line in axes.lines if line.get_alpha() == 0.35]
    assert len(faint) == len(card.names) - MOST
    strong = max(axes.lines, key=lambda line: line.get_linewidth())
    assert strong.get_xdata()[0] != 20  # beside the others, not on top of them
    assert len(texts(card.plot(accuracies=(1.0,), most=3))) == 4


def test_at_a_single_length_every_learner_has_a_row_of_its_own(card):
    one = card.only(["and3"], (50,))
    figure = one.plot(accuracies=(1.0,))
    (axes,) = figure.axes
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert sorted(shown) == sorted(one.names) and len(set(axes.get_yticks())) == len(shown)
    known = [one.row(name, "and3", 50, 1.0).m_star for name in shown]
    reached = [m for m in known if m is not None]
    assert known[: len(reached)] == sorted(reached)
    bold = [t.get_text() for t in axes.get_yticklabels() if t.get_fontweight() == "bold"]
    assert bold == ["mlp"]


def test_panels_follow_what_is_asked_and_mistakes_are_one_line(card):
    assert len(card.plot().axes) == 2  # the highest and the lowest accuracy
    with pytest.raises(InputError, match="accuracy: wanted one of"):
        card.plot(accuracies=(0.5,))
    with pytest.raises(InputError, match="target: wanted one of and3"):
        card.plot(targets=("or9",))
    with pytest.raises(InputError, match="card: wanted at least one row"):
        Card((), ()).plot()


def test_the_rows_as_a_frame_and_in_a_notebook(card):
    frame = card.frame()
    assert len(frame) == len(card.rows) and "note" in frame.columns
    row = Row("<b>mine</b>", "and3", 20, 1.0, None, None, None, 20, 0.0, None, 1.0)
    notes = {note_key("<b>mine</b>", "and3", 20, 1.0): "no answer"}
    html = Card((row,), (), notes=notes)._repr_html_()
    assert "&lt;b&gt;mine" in html and "no answer" in html and "<b>mine" not in html
    assert "T = 50" in card._repr_html_()
