"""Sets of rows of a truth table, each kept as one Python integer with a bit for each row.

Over n variables of M symbols there are M^n rows; row r shows symbol (r // M^i) mod M at variable i.
A *condition* is the set of rows where it holds. A *term* (a variable, a number, a count, a sum)
takes one of several whole values in each row: it is a dictionary from values to disjoint sets.
"""

import operator
from collections.abc import Callable, Mapping, Sequence

Rows = int
Term = Mapping[int, Rows]
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class RowSets:
    """All rows over the variables at `positions`, and how sets of them are combined."""

    def __init__(self, positions: Sequence[int], alphabet: int = 2) -> None:
        self.alphabet = alphabet
        self.size = alphabet ** len(positions)
        self.full: Rows = (1 << self.size) - 1
        self.variables: dict[int, Term] = {p: self._variable(i) for i, p in enumerate(positions)}

    def _variable(self, i: int) -> Term:
        """Symbol c of variable i: M^i rows from c M^i on, repeated every M^(i+1) (by doubling)."""
        block, width = self.alphabet**i, self.alphabet ** (i + 1)
        pattern = (1 << block) - 1
        while width < self.size:
            pattern |= pattern << width
            width *= 2
        return {c: pattern << c * block & self.full for c in range(self.alphabet)}

    def truth(self, condition: Rows) -> Term:
        """A condition as a number: 1 where it holds, 0 elsewhere."""
        return {0: self.full ^ condition, 1: condition}

    def compared(self, left: Term, sign: str, right: Term) -> Rows:
        """The rows where `left` and `right` stand in this relation."""
        holds = COMPARISONS[sign]
        pairs = [(a, b) for a in left for b in right if holds(a, b)]
        return sum(left[a] & right[b] for a, b in pairs)  # disjoint sets: the sum is their union

    def count(self, conditions: Sequence[Rows]) -> Term:
        """How many of the conditions hold, from at_least[k] = "at least k hold"."""
        at_least = [self.full, *(0 for _ in conditions), 0]
        for done, x in enumerate(conditions):
            for k in range(done + 1, 0, -1):
                at_least[k] |= at_least[k - 1] & x
        return {k: at_least[k] ^ at_least[k + 1] for k in range(len(conditions) + 1)}

    def added(self, terms: Sequence[Term]) -> Term:
        """The sum of the terms."""
        total: dict[int, Rows] = {0: self.full}
        for term in terms:
            new: dict[int, Rows] = {}
            for a, rows in total.items():
                for b, others in term.items():
                    new[a + b] = new.get(a + b, 0) | (rows & others)
            total = new
        return total

    def by_table(self, number: int, arguments: Sequence[Term]) -> Rows:
        """Bit r of `number` where the arguments show row r; constant parts end at once."""
        rows = self.alphabet ** len(arguments)
        if number == 0:
            return 0
        if number == (1 << rows) - 1:
            return self.full
        part, last = rows // self.alphabet, arguments[-1]
        found = 0
        for c, where in last.items():
            digits = number >> c * part & ((1 << part) - 1)
            found |= where & self.by_table(digits, arguments[:-1])
        return found
