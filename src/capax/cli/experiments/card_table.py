"""A card in a terminal: a table per target, then laws and sizes."""

from typing import TYPE_CHECKING

from capax.foreign import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from capax.cards.results import Card, Row


def show_card(console: "Console", made: "Card") -> None:
    """Print it."""
    from rich.table import Table
    from rich.text import Text

    for target in made.target_names:
        about = made.targets.get(target, {})
        console.print(
            f"{target}: leap {about.get('leap')}, degree {about.get('degree')}, "
            f"sensitivity {about.get('sensitivity')}",
            markup=False,
        )
        table = Table("learner", "T", "100 %", "99 %", "95 %", "floor", "m*/floor", "rate", "s/fit")
        for name in made.names:
            for T in sorted({r.T for r in made.rows if r.learner == name and r.target == target}):
                rows = [made.row(name, target, T, a) for a in _levels(made)]
                table.add_row(*(Text(cell) for cell in _line(made, name, T, rows)))
        console.print(table)
    for law in made.laws:
        if law.accuracy == max(_levels(made)):
            out = f"; ruled out: {', '.join(law.ruled_out)}" if law.ruled_out else ""
            fit = "" if law.p_value is None else f", fit p = {law.p_value:.2g}"
            text = f"  {law.learner} on {law.target}: {law.law or 'law not settled'}{fit}{out}"
            console.print(text, markup=False, soft_wrap=True)
    for trouble in made.troubles:
        where = f"{trouble.learner} on {trouble.target}, T = {trouble.T}"
        said = one_line(trouble.reason, 200)
        text = f"  {where}: {trouble.trials} trials failed: {said}"
        console.print(text, markup=False, soft_wrap=True, style="yellow")
    for mixed in made.mixed:
        shares = ("sparse", mixed.sparse), ("dense", mixed.dense), ("neither", mixed.neither)
        took = ", ".join(
            f"{name} {share:.0%}".replace("%", " %") for name, share in shares if share
        )
        where = f"T = {mixed.T}, m = {mixed.m}, {mixed.trials} trials"
        text = f"  {mixed.learner} on mixed parity takes: {took} ({where})"
        console.print(text, markup=False, soft_wrap=True)
    counts = {k: v.get("parameters") for k, v in made.learners.items() if v.get("parameters")}
    for name, by_T in counts.items():
        listed = ", ".join(f"{n:,} (T = {T})" for T, n in by_T.items())
        console.print(f"  {name}: {listed} parameters", markup=False, soft_wrap=True)


def _levels(made: "Card") -> list[float]:
    return sorted({row.accuracy for row in made.rows}, reverse=True)


def _line(made: "Card", name: str, T: int, rows: "list[Row | None]") -> list[str]:
    first = next(row for row in rows if row is not None)
    levels = [_cell(made, row) for row in rows][:3]
    levels += [""] * (3 - len(levels))
    ratio = f"{first.m_star / first.floor:.2f}" if first.m_star and first.floor else ""
    rate = "" if first.rate is None else f"{first.rate:g}"
    own = f"* {name}" if name in made.measured and len(made.names) > len(made.measured) else name
    return [own, str(T), *levels, str(first.floor), ratio, rate, f"{first.seconds:.2g}"]


def _cell(made: "Card", row: "Row | None") -> str:
    """`41 [36, 47]`, `> 640`, `never`."""
    if row is None:
        return ""
    if row.m_star is None:
        said = made.note(row)
        return "never" if said.startswith("does not reach") else said
    low, high = ("open" if side is None else str(side) for side in (row.low, row.high))
    return f"{row.m_star} [{low}, {high}]"
