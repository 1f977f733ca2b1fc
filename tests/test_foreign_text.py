"""Text from files is text: in a terminal, in a notebook, in an error, whatever it holds."""

import io
from contextlib import redirect_stderr
from html.parser import HTMLParser
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from rich.text import Text

from any_text import any_text
from capax.cli.speaking.watching import InLines
from capax.errors import InputError, require
from capax.foreign import latex_text, one_line, printable, script_json, shortened
from capax.html import html_table
from capax.progress import every_minute, fixed
from capax.terminal import Terminal

HOSTILE = (
    "[bold]not bold[/bold]",
    "[/b]",
    "[link=file:///etc/passwd]x[/link]",
    ":skull:",
    "\x1b[31mred\x1b]0;title\x07",
    "</script><script>document.title='x'</script>",
    "<img src=x onerror=alert(1)>",
    "one\u2028two\u2029three\x85four",
    "\u202eright to left\u2066",
    "\x00\x08\r\x7f",
    "$\\frac{1}{0}$ %comment _^{}",
    '" onmouseover="x',
)


def drawn(*cells: str | Text) -> str:
    console = Terminal(file=io.StringIO(), width=200, force_terminal=False)
    for cell in cells:
        console.print(cell)
    title = cells[0] if isinstance(cells[0], str) else cells[0].plain
    console.table([*([cell] for cell in cells), title], head=[title], title=title)
    return console.file.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_shows_it_and_does_nothing_else(text):
    out = drawn(text) + drawn(Text(text)) + in_a_bar(text) + at_work(text)
    assert all(c.isprintable() or c == "\n" for c in out)
    assert out.splitlines()[0] == printable(text).rstrip() or "\n" in printable(text)


def in_a_bar(text: str) -> str:
    console = Terminal(file=io.StringIO(), width=200, force_terminal=False)
    with Progress(fixed("{task.description}"), console=console) as progress:
        progress.add_task(text)
    return console.file.getvalue()


def at_work(text: str) -> str:
    """What logs get: a line whenever a stage begins."""
    out = io.StringIO()
    with redirect_stderr(out), every_minute() as lines, InLines(lines).single(text):
        pass
    return out.getvalue()


@given(any_text())
def test_printable_is_printable_and_leaves_printable_text_alone(text):
    shown = printable(text)
    assert all(c.isprintable() or c in "\n\t" or category(c) == "Zs" for c in shown)
    assert printable(shown) == shown
    assert one_line(text, 40).isprintable() and len(one_line(text, 40)) <= 40


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("text", HOSTILE)
def test_a_notebook_shows_it_and_does_nothing_else(text):
    seen = Seen()
    seen.feed(html_table([(text, text)], head=[text, text], title=text, notes=[text]))
    assert seen.tags <= {"table", "thead", "tbody", "tr", "th", "td", "div", "b"}
    assert seen.attributes <= {"style"}
    assert seen.text.count(printable(text)) == 6


@given(st.text(alphabet="\\{}$%_^&#~ab<>"))
def test_latex_text_is_one_group_without_commands_of_its_own(text):
    inside = latex_text(text).removeprefix(r"\text{").removesuffix("}")
    for name in ("textbackslash{}", "textasciicircum{}", "textasciitilde{}"):
        inside = inside.replace(f"\\{name}", "")
    for character in "&%$#_{}":
        inside = inside.replace(f"\\{character}", "")
    assert not set(inside.replace("{<}", "")) & set("\\{}$%_^&#~")


@pytest.mark.parametrize("text", HOSTILE)
def test_an_error_quotes_it_in_one_printable_line(text):
    with pytest.raises(InputError) as caught:
        require(False, "name", "a name", text)
    assert str(caught.value).isprintable()
    assert all(c.isprintable() or c in "\n\t" for c in str(InputError(text)))


def test_texts_of_a_megabyte_are_cut_wherever_they_are_shown():
    long = "y" * 2**20
    assert shortened("y" * 5000) == "y" * 5000
    cut = shortened(long)
    assert cut.startswith("y" * 5000 + "... (1048576 ch") and len(cut) < 5100
    assert len(str(html_table([["a", long]]))) < 12_000
    assert len(str(InputError(long))) < 5100
    assert len(script_json({"series": [{"name": long}]})) < 5200
    out = io.StringIO()
    Terminal(file=out, width=80).table([["a", long]])
    assert len(out.getvalue()) < 20_000
