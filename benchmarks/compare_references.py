"""Two reference cards, row by row: how many intervals meet, and which do not.

python benchmarks/compare_references.py before.json after.json    # files of `capax card --distil`
git show HEAD~1:src/capax/cards/answers/reference.json > before.json   # the one of before

An open end reaches as far as it likes; m* beyond the largest m is an interval from there on.
"""

import argparse
from collections import Counter
from pathlib import Path

from capax.cards.answers.card_rows import Card, Row, from_json


def ends(row: Row) -> tuple[float, float]:
    """The interval of a row; an end that is open is infinite."""
    return row.low or 0.0, row.high or float("inf")


def verdict(one: Row, other: Row) -> str:
    """What a row of one card says beside the same row of the other."""
    beyond = [row.m_star is None for row in (one, other)]
    (a, b), (c, d) = ends(one), ends(other)
    if max(a, c) > min(b, d):
        return "apart"
    return "both beyond" if all(beyond) else "one beyond" if any(beyond) else "meet"


def compared(before: Card, after: Card) -> dict[str, list[tuple[Row, Row]]]:
    """Rows that both cards have, by verdict."""
    found: dict[str, list[tuple[Row, Row]]] = {}
    for row in before.rows:
        other = after.row(row.learner, row.target, row.T, row.accuracy)
        if other is not None:
            found.setdefault(verdict(row, other), []).append((row, other))
    return found


def told(row: Row) -> str:
    low, high = ("open" if end is None else str(end) for end in (row.low, row.high))
    return f"{row.m_star} [{low}, {high}] at {row.rate}"


def width(row: Row) -> float | None:
    return row.high / row.low if row.low and row.high else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args()
    before, after = (from_json(p.read_text(), p.name) for p in (options.before, options.after))
    found = compared(before, after)
    rated = {row.learner for row in before.rows if row.rate is not None}
    for name, chosen in (("networks", True), ("fitted", False)):
        rows = Counter({k: sum((a.learner in rated) == chosen for a, _ in v)
                        for k, v in found.items()})  # fmt: skip
        print(f"{name}: {rows.total()} rows;", ", ".join(f"{k} {n}" for k, n in rows.items()))
    for one, other in found.get("apart", []):
        why = "another rate" if one.rate != other.rate else "the same rate"
        print(f"  {one.learner} on {one.target}, T = {one.T}, {100 * one.accuracy:g} %: "
              f"{told(one)}, then {told(other)}; {why}")  # fmt: skip
    for name, card in (("before", before), ("after", after)):
        widths = sorted(w for w in map(width, card.rows) if w)
        print(f"{name}: {len(card.rows)} rows, {len(widths)} intervals with two ends, "
              f"high / low {widths[len(widths) // 2]:.2f} in the middle")  # fmt: skip
    laws = {(w.learner, w.target, w.accuracy): w for w in before.laws}
    both = [(laws[k], w) for w in after.laws if (k := (w.learner, w.target, w.accuracy)) in laws]
    print(f"laws: {sum(a.law == b.law for a, b in both)} of {len(both)} named alike; "
          f"{sum(a.law in b.ruled_out for a, b in both)} named before and ruled out after, "
          f"{sum(b.law in a.ruled_out for a, b in both)} the other way round")  # fmt: skip


if __name__ == "__main__":
    main()
