"""A card in a terminal: per target a block for every learner, its law beside its name."""

from typing import TYPE_CHECKING

from capax.errors import counted
from capax.foreign import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capax.cards.answers.card_rows import Card, LawRow, Row
    from capax.terminal import Terminal


UNFINISHED = "unfinished"  # as in `capax.cards.answers.card_rows`, without its import
_HEAD = ("x floor", "solved", "rate", "s/fit")


def show_card(console: "Terminal", made: "Card") -> None:
    """Print the block of every target, then the lines below them."""
    for target in made.target_names:
        _show_target(console, made, target)
        console.print()
    if made.times:
        _show_times(console, made)
        console.print()
    for text, style in _lines_below(made):
        console.print(text, style=style)


def _show_target(console: "Terminal", made: "Card", target: str) -> None:
    """One table: a line with the name and the law of every learner, its sizes below it."""
    about = made.targets.get(target, {})
    rows = [row for row in made.rows if row.target == target]
    levels = sorted({row.accuracy for row in rows}, reverse=True)
    floors = {row.T: row.floor for row in sorted(rows, key=lambda row: (row.T, row.accuracy))}
    known = ", ".join(f"{m or 'unknown'} (T = {T})" for T, m in floors.items())
    traits = ", ".join(f"{name} {about.get(name)}" for name in ("leap", "degree", "sensitivity"))
    console.print(f"{target}: {traits}", style="bold")
    console.print(f"floor (the best learner): {known}")
    lines: list[str | list[str]] = []
    for name in made.names:
        own = [_cells(made, name, target, T, levels) for T in floors]
        if any(own):
            lines += [f"{_marked(made, name)}: {_law(made, name, target)}", *filter(None, own)]
    head = ["T", *(f"{100 * level:.4g} %" for level in levels), *_HEAD]
    align = "r" + "l" * len(levels) + "r" * len(_HEAD)
    styles = ["cyan" if isinstance(line, str) else "" for line in lines]
    console.table(lines, head=head, align=align, styles=styles)


def _show_times(console: "Terminal", made: "Card") -> None:
    """Steps to solve parities: a line for every learner and T, a column for every s."""
    first = made.times[0]
    head = f"steps to solve a parity of s bits: fresh batches of {first.batch}"
    console.print(f"{head}, at most {first.limit} steps", style="bold")
    bits = sorted({row.s for row in made.times})
    at = {(row.learner, row.T, row.s): row.words for row in made.times}
    lines: list[str | list[str]] = []
    for name in dict.fromkeys(row.learner for row in made.times):
        own = [row for row in made.times if row.learner == name]
        if all(not row.solved + row.censored for row in own) and len({r.note for r in own}) == 1:
            lines.append(f"{_marked(made, name)}: {own[0].note}")
            continue
        lines.append(_marked(made, name))
        for T in dict.fromkeys(row.T for row in own):
            lines.append([f"  {T}", *(at.get((name, T, s), "") for s in bits)])
    styles = ["cyan" if isinstance(line, str) else "" for line in lines]
    columns = ["T", *(f"s = {s}: median [95%], solved" for s in bits)]
    console.table(lines, head=columns, align="r" + "l" * len(bits), styles=styles)


def _lines_below(made: "Card") -> "Iterator[tuple[str, str]]":
    """The lines below the tables: remarks, errors, mixed parity, sizes."""
    for remark in made.remarks:
        yield one_line(remark, 400), ""
    for one in made.troubles:
        where = f"{one.learner} on {one.target}, T = {one.T}"
        said = one_line(one.reason, 200)
        number = f"{one.trials} trial{'s' if one.trials != 1 else ''}"
        yield f"{where}: {number} failed: {said}", "yellow"
    for mixed in made.mixed:
        shares = ("sparse", mixed.sparse), ("dense", mixed.dense), ("neither", mixed.neither)
        took = ", ".join(f"{name} {_percent(share)}" for name, share in shares if share)
        where = f"T = {mixed.T}, m = {mixed.m}, {counted(mixed.trials, 'trial')}"
        yield f"{mixed.learner} on mixed parity takes: {took} ({where})", ""
    for name, facts in made.learners.items():
        if counts := facts.get("parameters"):
            listed = ", ".join(f"{n:,} (T = {T})" for T, n in counts.items())
            yield f"{name}: {listed} parameters", "dim"


def _marked(made: "Card", name: str) -> str:
    """The name; with a star if it was measured now, beside learners of the package."""
    return f"* {name}" if name in made.measured and len(made.names) > len(made.measured) else name


def _law(made: "Card", name: str, target: str) -> str:
    """The law at the highest accuracy, with its fit and the laws that are ruled out."""
    own = [w for w in made.laws if (w.learner, w.target) == (name, target)]
    if not own:
        return "law not settled"
    law: LawRow = max(own, key=lambda w: w.accuracy)
    fit = "" if law.p_value is None else f", fit p = {law.p_value:.2g}"
    out = f"; ruled out: {', '.join(law.ruled_out)}" if law.ruled_out else ""
    return f"{law.law or 'law not settled'}{fit}{out}"


def _cells(made: "Card", name: str, target: str, T: int, levels: list[float]) -> list[str]:
    """One line of a learner; None without measurements."""
    rows = [made.row(name, target, T, level) for level in levels]
    first = next((row for row in rows if row is not None), None)
    if first is None:
        return []
    ratio = f"{first.m_star / first.floor:.2f}" if first.m_star and first.floor else ""
    rate = "" if first.rate is None else f"{first.rate:g}"
    cost = f"{first.seconds:.2g}"
    return [f"  {T}", *(_cell(made, row) for row in rows), ratio, _percent(first.solved_share),
            rate, cost]  # fmt: skip


def _cell(made: "Card", row: "Row | None") -> str:
    """`41 [36, 47]`, `> 640`, `never`, `unfinished, perhaps 20 < m* <= 40, 3 tuning trials`."""
    if row is None:
        return ""
    said = made.note(row)
    if row.m_star is None:
        short = {"does not reach": "never", "no answer": "no answer"}
        return next((word for begin, word in short.items() if said.startswith(begin)), said)
    low, high = ("open" if side is None else str(side) for side in (row.low, row.high))
    mark = ", unfinished" if said.startswith(UNFINISHED) else ""
    return f"{row.m_star} [{low}, {high}]{mark}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
