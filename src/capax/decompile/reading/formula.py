"""The shortest way to write a Boolean function that `capax.parse` reads back.

Candidates: a named family (and, or, maj, thr, parity, with negations; any symmetric function), the
smallest sum of products of f or of its negation, the smallest XOR of products, the table. Length
counts what a reader has to read: literals, bits of a table or of a symmetric function, and one for
a negation around the whole. Of equally short ones the first in this order is taken.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from capax.boolean.functions import SparseFunction
from capax.boolean.parser import MAX_LENGTH, parse
from capax.decompile.reading.sum_of_products import Sum, minimal_sum, xor_normal_form
from capax.errors import require


@dataclass(frozen=True)
class Formula:
    """A text that parses to the function; `kind`: constant, literal, and, or, maj, thr, parity,
    symmetric, sum of products, xor of products or table. `minimal`: proved shortest of its kind."""

    text: str
    kind: str
    length: int
    minimal: bool = True


def shortest_formula(f: SparseFunction) -> Formula:
    """The shortest formula of a Boolean function. Raises `InputError` for a real-valued one."""
    require(f.is_boolean, "function", "a Boolean function", f)
    f = f.relevant()
    fitting = [c for c in _candidates(f) if len(c.text) <= MAX_LENGTH]
    best = min(fitting, key=lambda formula: formula.length)
    again = parse(best.text, f.T)
    assert _same(again, f), f"{best.text} does not read back as {f}"
    return best


def _candidates(f: SparseFunction) -> Iterator[Formula]:
    if f.s == 0:
        yield Formula(str(int(f.table[0])), "constant", 1)
        return
    yield from _named(f)
    yield from _sums(f)
    number = hex(sum(1 << row for row in np.flatnonzero(f.table).tolist()))
    yield Formula(f"table({number}; {_list(f, 0)})", "table", f.s + f.table.size)


def _named(f: SparseFunction) -> Iterator[Formula]:
    """The families: literal signs are forced by the directions in which f can change."""
    if f.s == 1:
        yield Formula(_literal(f, 0, negated=bool(f.table[0] == 1)), "literal", 1)
        return
    weights = np.bitwise_count(np.arange(f.table.size)) % 2
    for inverted in (0, 1):
        if (f.table == (weights ^ inverted)).all():
            text = f"parity({_list(f, 0)})"
            yield Formula(f"~{text}" if inverted else text, "parity", f.s + inverted)
            return
    flips = unate_flips(f)
    if flips is not None:
        turned = SparseFunction(f.support, f.table[np.arange(f.table.size) ^ flips], f.T)
        if turned.is_symmetric:
            least = int(np.argmax(turned.symmetric_values()))
            name = _threshold_name(least, f.s)
            kind = "thr" if name.startswith("thr") else name
            yield Formula(f"{name}({_list(f, flips)})", kind, f.s)
    elif f.is_symmetric:
        digits = "".join(str(int(v)) for v in f.symmetric_values())
        yield Formula(f"sym({digits}; {_list(f, 0)})", "symmetric", f.s + len(digits))


def unate_flips(f: SparseFunction) -> int | None:
    """Bit i is set where f falls in variable i; None where some variable goes both ways."""
    flips = 0
    for i in range(f.s):
        low, high = f.split(i)
        rises, falls = bool((high > low).any()), bool((high < low).any())
        if rises and falls:
            return None
        flips |= int(falls) << i
    return flips


def _threshold_name(least: int, s: int) -> str:
    if least == s:
        return "and"
    if least == 1:
        return "or"
    return "maj" if least == s // 2 + 1 else f"thr{least}"


def _sums(f: SparseFunction) -> Iterator[Formula]:
    plain, other = minimal_sum(f.table), minimal_sum(1 - f.table)
    if plain is not None:
        yield _written(f, plain, " | ", "sum of products", "")
    if other is not None:
        yield _written(f, other, " | ", "sum of products", "~")
    xor = xor_normal_form(f.table)
    if xor is not None:
        yield _written(f, xor, " ^ ", "xor of products", "")


def _written(f: SparseFunction, found: Sum, join: str, kind: str, sign: str) -> Formula:
    products = [_product(f, mask, bits) for mask, bits in found.cubes]
    text = join.join(products)
    length = found.literals + (1 if sign else 0) + sum(product == "1" for product in products)
    return Formula(f"{sign}({text})" if sign else text, kind, length, found.proved)


def _product(f: SparseFunction, mask: int, bits: int) -> str:
    literals = [_literal(f, i, negated=not (bits >> i) & 1) for i in range(f.s) if mask >> i & 1]
    return " & ".join(literals) or "1"


def _literal(f: SparseFunction, i: int, *, negated: bool) -> str:
    return f"~x{f.support[i]}" if negated else f"x{f.support[i]}"


def _list(f: SparseFunction, flips: int) -> str:
    return ", ".join(_literal(f, i, negated=bool(flips >> i & 1)) for i in range(f.s))


def _same(g: SparseFunction, f: SparseFunction) -> bool:
    """The same function, whatever the order of the variables."""
    order = [f.support.index(x) for x in g.support] if set(g.support) == set(f.support) else []
    if len(order) != f.s:
        return False
    rows = np.arange(f.table.size)
    moved = sum(((rows >> i & 1) << j for i, j in enumerate(order)), np.zeros_like(rows))
    return bool((g.table == f.table[moved]).all())
