"""Foreign text: names, formulas and metadata from files that anybody may have written.

Escape sequences would move a cursor, line separators and right-to-left marks would rearrange a
line. Whoever shows text of unknown origin shows it through `printable`; `terminal` and `notebook`
do so for everything they are given.
"""


def printable(text: str) -> str:
    r"""`text` with every character that cannot be printed written as its code; \n and \t stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else _code(c) for c in text)


def one_line(text: str, limit: int = 80) -> str:
    """`text` in one printable line of at most `limit` characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{{{number:x}}}"
