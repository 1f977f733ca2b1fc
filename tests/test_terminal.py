"""The one table of terminals: aligned, folded only where somebody looks, numbers never cut."""

import io

import pytest

from capax.terminal import NARROWEST, Terminal

SENTENCE = "a sentence of several words that does not fit"
ROWS = [("first", 12345678, SENTENCE), "a line of its own", ("second, longer", 7, None)]


def printed(width, *, terminal, **settings):
    console = Terminal(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)
    console.table(ROWS, head=("name", "n", "meaning"), align="lrl", **settings)
    return console.file.getvalue().splitlines()


def test_columns_are_aligned_and_nothing_is_folded_in_a_pipe(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert printed(20, terminal=False, title="Title") == [
        "Title",
        "name                   n  meaning",
        f"first           12345678  {SENTENCE}",
        "a line of its own",
        "second, longer         7",
    ]


@pytest.mark.parametrize("width", [5, 37, 41, 53])
def test_on_a_terminal_text_is_folded_and_numbers_are_whole(width):
    lines = printed(width, terminal=True)
    assert {"12345678", *SENTENCE.split()} <= set(" ".join(lines).split())
    longest = max(map(len, lines))
    narrow = 2 * NARROWEST + 8 + 4
    assert longest <= max(width, narrow)
    assert width > 5 or longest > width  # not cut: the line is longer than the screen


def test_without_a_head_the_first_column_is_bold_and_lines_are_folded_between_words():
    console = Terminal(file=io.StringIO(), width=40, force_terminal=True, color_system="standard")
    console.table([("name", "value")])
    console.print(SENTENCE)
    assert [line.rstrip() for line in console.file.getvalue().splitlines()] == [
        "\x1b[1mname\x1b[0m  value",
        "a sentence of several words that does",
        "not fit",
    ]
