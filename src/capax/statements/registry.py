"""Every statement of the paper, its meaning, the functions that compute it and its tests.

The list has only strings: `capax theorems` and docs/theory.md print it without importing the layers
it names. A test checks that every function and every test exists.
"""

from capax.statements.rows.appendix_a_rows import APPENDIX_A_ROWS
from capax.statements.rows.our_rows import OUR_ROWS
from capax.statements.rows.representation_rows import REPRESENTATION_ROWS
from capax.statements.rows.section_rows import SECTION_ROWS
from capax.statements.rows.statement import Statement

STATEMENTS: tuple[Statement, ...] = (
    *SECTION_ROWS,
    *(row for row in REPRESENTATION_ROWS if row.number.startswith(("5", "Section 5", "Section 6"))),
    *APPENDIX_A_ROWS,
    *(row for row in REPRESENTATION_ROWS if row.number.startswith(("B", "Section B"))),
    *OUR_ROWS,
)


def find(number: str | None) -> list[Statement]:
    """The statement with exactly this number, else all statements whose label has the text."""
    if number is None:
        return list(STATEMENTS)
    wanted = number.strip().lower()
    exact = [s for s in STATEMENTS if wanted in (s.number.lower(), s.label.lower())]
    return exact or [s for s in STATEMENTS if wanted in s.label.lower()]


def markdown_table() -> str:
    """The table of docs/theory.md: statement, meaning, functions, tests."""
    rows = ["| statement | meaning | function | test |", "|---|---|---|---|"]
    for s in STATEMENTS:
        functions = "<br>".join(f"`{name}`" for name in s.functions)
        tests = "<br>".join(f"`{name.removeprefix('tests/')}`" for name in s.tests)
        rows.append(f"| {s.label} | {_cell(s.meaning)} | {functions} | {tests} |")
    return "\n".join(rows)


def constants_table() -> str:
    """The second table of docs/theory.md: the paper's constants beside ours."""
    rows = ["| statement | paper | here |", "|---|---|---|"]
    rows += [f"| {s.label} | {_cell(s.paper)} | {_cell(s.ours)} |" for s in STATEMENTS if s.ours]
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")
