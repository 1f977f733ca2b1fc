"""A card in the terminal: everything that is promised, in 80 columns where it fits."""

from capax.cards.answers.card_rows import Card, LawRow, Row, TroubleRow, note_key
from capax.cards.answers.parity_rows import MixedRow
from capax.cli.experiments.card_table import show_card
from capax.terminal import Terminal


def printed(made, width=80):
    console = Terminal(width=width, record=True, force_terminal=False)
    with console.capture() as caught:
        show_card(console, made)
    return caught.get().splitlines()


def row(learner, T, accuracy, m_star, low=None, high=None, rate=0.003):
    return Row(learner, "and3", T, accuracy, m_star, low, high, 20, 0.25, rate, 0.125)


MADE = Card(
    rows=(
        row("mine.py:[b]build", 20, 1.0, 50, 41, 62),
        row("mine.py:[b]build", 20, 0.95, 40, 31, None),
        row("tree", 20, 1.0, None, 513, rate=None),
        row("tree", 50, 1.0, None, rate=None),
        row("tree", 50, 0.95, 117, 99, 131, rate=None),
    ),
    laws=(
        LawRow("mine.py:[b]build", "and3", 1.0, "log", 0.5, ("constant", "linear")),
        LawRow("mine.py:[b]build", "and3", 0.95, "power", 0.5, ()),
    ),
    notes={
        note_key("tree", "and3", 20, 1.0): "> 512",
        note_key("tree", "and3", 50, 1.0): "does not reach 80 % for any m tried",
    },
    learners={"tree": {"parameters": {"20": 1234}}},
    targets={"and3": {"leap": 1, "degree": 3, "sensitivity": 3}},
    measured=("mine.py:[b]build",),
    mixed=(MixedRow("tree", 20, 640, 4, 0.75, 0.0, 0.25, None),),
    troubles=(TroubleRow("tree", "and3", 50, 7, "raised\nin two lines"),),
)


def test_every_line():
    assert printed(MADE) == [
        "and3: leap 1, degree 3, sensitivity 3",
        "floor (the best learner): 20 (T = 20), 20 (T = 50)",
        "   T  100 %        95 %           x floor  solved   rate  s/fit",
        "* mine.py:[b]build: log, fit p = 0.5; ruled out: constant, linear",
        "  20  50 [41, 62]  40 [31, open]     2.50    25 %  0.003   0.12",
        "tree: law not settled",
        "  20  > 512                                  25 %          0.12",
        "  50  never        117 [99, 131]             25 %          0.12",
        "",
        "tree on and3, T = 50: 7 trials failed: raised in two lines",
        "tree on mixed parity takes: sparse 75 %, neither 25 % (T = 20, m = 640, 4 trials)",
        "tree: 1,234 (T = 20) parameters",
    ]


def test_an_empty_card_says_nothing():
    assert printed(Card((), ())) == []
