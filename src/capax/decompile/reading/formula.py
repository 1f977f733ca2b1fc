"""The shortest way to write a Boolean function that `capax.parse` reads back.

Candidates: a named family (and, or, maj, thr, parity, with negations; any symmetric function), the
smallest sum of products of f or of its negation, the smallest XOR of products, the table. The
length counts literals, bits of a table or of a symmetric function, and one for a negation of the
whole. Of equally short formulas the first in this order is taken.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from capax.boolean.functions import SparseFunction, all_patterns
from capax.boolean.parser import MAX_LENGTH, parse
from capax.boolean.row_sets import COMPARISONS
from capax.boolean.symbol_classes import on_classes, symbol_classes
from capax.decompile.reading.sum_of_products import Sum, minimal_sum, xor_normal_form
from capax.errors import require

MAX_PRODUCT_LITERALS = 64
"""A sum of products of equalities with more of them is less clear than a table."""


@dataclass(frozen=True)
class Formula:
    """A text that parses to the function.

    `kind`: constant, literal, and, or, maj, thr, parity, symmetric, sum of products, xor of
    products, comparison or table. `minimal`: proved shortest of its kind.
    """

    text: str
    kind: str
    length: int
    minimal: bool = True


def shortest_formula(f: SparseFunction) -> Formula:
    """The shortest formula of a Boolean function. Raises `InputError` for a real-valued one."""
    require(f.is_boolean, "function", "a Boolean function", f)
    f = f.relevant()
    found = _candidates(f) if f.alphabet == 2 else _symbol_candidates(f)
    fitting = [c for c in found if len(c.text) <= MAX_LENGTH]
    best = min(fitting, key=lambda formula: formula.length)
    again = parse(best.text, f.T, alphabet=f.alphabet)
    assert again == f.in_order(), f"{best.text} does not read back as {f}"
    return best


def _candidates(f: SparseFunction) -> Iterator[Formula]:
    if f.s == 0:
        yield Formula(str(int(f.table[0])), "constant", 1)
        return
    yield from _named(f)
    yield from _sums(f)
    yield _table(f)


def _table(f: SparseFunction) -> Formula:
    number = hex(sum(1 << row for row in np.flatnonzero(f.table).tolist()))
    return Formula(f"table({number}; {_list(f, 0)})", "table", f.s + f.table.size)


def _symbol_candidates(f: SparseFunction) -> Iterator[Formula]:
    """With more than two symbols: a constant, conditions on classes of symbols, or a comparison."""
    if f.s == 0:
        yield Formula(str(int(f.table[0])), "constant", 1)
        return
    classes = symbol_classes(f)
    if max(classes) == 1:
        g = on_classes(f, classes)
        best = min(_candidates(g), key=lambda formula: formula.length)
        yield replace(best, text=_in_symbols(best.text, classes), length=2 * best.length)
    if f.s == 2:
        x, y = (f"x{t}" for t in f.support)
        for sign in COMPARISONS:
            text = f"{x} {sign} {y}"
            if parse(text, f.T, alphabet=f.alphabet) == f.in_order():
                yield Formula(text, "comparison", 2)
    yield from _symbol_products(f)
    yield _table(f)


def _in_symbols(text: str, classes: tuple[int, ...]) -> str:
    """A formula of bits with the condition "its symbol is of class 1" for every variable."""
    on = [c for c, k in enumerate(classes) if k == 1]
    off = [c for c, k in enumerate(classes) if k == 0]
    one = f"(\\g<0> == {on[0]})" if len(on) == 1 else f"(\\g<0> != {off[0]})"
    if len(on) > 1 and len(off) > 1:
        one = "(" + " | ".join(f"\\g<0> == {c}" for c in on) + ")"
    return re.sub(r"x[0-9]+", one, text)


def _symbol_products(f: SparseFunction) -> Iterator[Formula]:
    """The patterns where f is 1, or where it is 0, one product of equalities each."""
    patterns = all_patterns(f.s, f.alphabet)
    for value, sign in ((1.0, ""), (0.0, "~")):
        rows = patterns[f.table == value]
        if len(rows) * f.s > MAX_PRODUCT_LITERALS:
            continue
        text = " | ".join(_equalities(f, row) for row in rows.tolist())
        text = f"{sign}({text})" if sign else text
        length = 2 * len(rows) * f.s + len(sign)
        yield Formula(text, "sum of products", length, minimal=False)


def _equalities(f: SparseFunction, row: list[int]) -> str:
    return " & ".join(f"x{t} == {c}" for t, c in zip(f.support, row, strict=True))


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
    """Bit i is set if f falls in variable i; None if f both rises and falls in some variable."""
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
