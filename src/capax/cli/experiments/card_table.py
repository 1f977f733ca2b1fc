"""A card in a terminal: per target a block for every learner, its law beside its name."""

from typing import TYPE_CHECKING

from capax.foreign import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from capax.cards.answers.results import Card, LawRow, Row

_HEAD = ("x floor", "solved", "rate", "s/fit")


def show_card(console: "Console", made: "Card") -> None:
    """Print it, a line at a time."""
    for target in made.target_names:
        for text, style in _target_lines(made, target):
            console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)
        console.print()
    for text, style in _lines_below(made):
        console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def _target_lines(made: "Card", target: str) -> "Iterator[tuple[str, str]]":
    """Text and style of every line about a target."""
    about = made.targets.get(target, {})
    rows = [row for row in made.rows if row.target == target]
    levels = sorted({row.accuracy for row in rows}, reverse=True)
    floors = {row.T: row.floor for row in sorted(rows, key=lambda row: (row.T, row.accuracy))}
    known = ", ".join(f"{m or 'unknown'} (T = {T})" for T, m in floors.items())
    traits = ", ".join(f"{name} {about.get(name)}" for name in ("leap", "degree", "sensitivity"))
    yield f"{target}: {traits}", "bold"
    yield f"floor (the best learner): {known}", ""
    lines = {
        name: [_cells(made, name, target, T, levels) for T in sorted(floors)] for name in made.names
    }
    head = ["T", *(f"{a:.4g} %" for a in (100 * level for level in levels)), *_HEAD]
    every = [head, *(cells for own in lines.values() for cells in own)]
    widths = [max(len(cells[i]) for cells in every if cells) for i in range(len(head))]
    yield _line(head, widths), "dim"
    for name, own in lines.items():
        if any(own):
            yield f"{_marked(made, name)}: {_law(made, name, target)}", "cyan"
            yield from ((_line(cells, widths), "") for cells in own if cells)


def _lines_below(made: "Card") -> "Iterator[tuple[str, str]]":
    """What stands below: troubles, mixed parity, sizes."""
    for one in made.troubles:
        where = f"{one.learner} on {one.target}, T = {one.T}"
        said = one_line(one.reason, 200)
        yield f"{where}: {one.trials} trials failed: {said}", "yellow"
    for mixed in made.mixed:
        shares = ("sparse", mixed.sparse), ("dense", mixed.dense), ("neither", mixed.neither)
        took = ", ".join(f"{name} {_percent(share)}" for name, share in shares if share)
        where = f"T = {mixed.T}, m = {mixed.m}, {mixed.trials} trials"
        yield f"{mixed.learner} on mixed parity takes: {took} ({where})", ""
    for name, facts in made.learners.items():
        if counts := facts.get("parameters"):
            listed = ", ".join(f"{n:,} (T = {T})" for T, n in counts.items())
            yield f"{name}: {listed} parameters", "dim"


def _marked(made: "Card", name: str) -> str:
    """The name; with a star where it was measured now, beside others that travel with Capax."""
    return f"* {name}" if name in made.measured and len(made.names) > len(made.measured) else name


def _law(made: "Card", name: str, target: str) -> str:
    """The law at the highest accuracy, with its fit and what is ruled out."""
    own = [w for w in made.laws if (w.learner, w.target) == (name, target)]
    if not own:
        return "law not settled"
    law: LawRow = max(own, key=lambda w: w.accuracy)
    fit = "" if law.p_value is None else f", fit p = {law.p_value:.2g}"
    out = f"; ruled out: {', '.join(law.ruled_out)}" if law.ruled_out else ""
    return f"{law.law or 'law not settled'}{fit}{out}"


def _cells(made: "Card", name: str, target: str, T: int, levels: list[float]) -> list[str]:
    """One line of a learner; none where nothing was measured."""
    rows = [made.row(name, target, T, level) for level in levels]
    first = next((row for row in rows if row is not None), None)
    if first is None:
        return []
    ratio = f"{first.m_star / first.floor:.2f}" if first.m_star and first.floor else ""
    rate = "" if first.rate is None else f"{first.rate:g}"
    cost = f"{first.seconds:.2g}"
    return [str(T), *(_cell(made, row) for row in rows), ratio, _percent(first.solved_share),
            rate, cost]  # fmt: skip


def _cell(made: "Card", row: "Row | None") -> str:
    """`41 [36, 47]`, `> 640`, `never`."""
    if row is None:
        return ""
    if row.m_star is None:
        said = made.note(row)
        return "never" if said.startswith("does not reach") else said
    low, high = ("open" if side is None else str(side) for side in (row.low, row.high))
    return f"{row.m_star} [{low}, {high}]"


def _line(cells: list[str], widths: list[int]) -> str:
    """T and the numbers at the end to the right, what has an interval to the left."""
    last = len(cells) - len(_HEAD)
    parts = [
        cell.ljust(width) if 0 < i < last else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  " + "  ".join(parts).rstrip()


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
